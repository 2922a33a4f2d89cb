"""APIServices: served group versions and their priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.table import Defaults
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.validation.api_services import (
    GROUP_LIMIT,
    api_service_name_problems,
    validate_api_service,
    validate_api_service_status,
)
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

GROUP = "apiregistration"
DEFAULT_PORT = 443
DEFAULTS = Defaults(below={"spec": Defaults(below={"service": Defaults({"port": DEFAULT_PORT})})})
_PLAIN = {"": 18000, "apps": 17800, "autoscaling": 17500, "batch": 17400, "policy": 17100}
_QUALIFIED = {
    "events": 17750,
    "authentication": 17700,
    "authorization": 17600,
    "certificates": 17300,
    "networking": 17200,
    "rbac.authorization": 17000,
    "storage": 16800,
    "apiextensions": 16700,
    "admissionregistration": 16700,
    "scheduling": 16600,
    "coordination": 16500,
    "node": 16300,
    "discovery": 16200,
    "flowcontrol.apiserver": 16100,
    "internal.apiserver": 16000,
    "resource": 16200,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("admissionregistration", "v1beta1"): 12,
    ("admissionregistration", "v1alpha1"): 9,
    ("flowcontrol.apiserver", "v1"): 21,
    ("flowcontrol.apiserver", "v1beta3"): 18,
    ("internal.apiserver", "v1alpha1"): 9,
    ("resource", "v1"): 21,
    ("resource", "v1beta2"): 15,
    ("resource", "v1alpha2"): 9,
}
_STAGES = {"v1": 15, "v1beta1": 9, "v1alpha1": 1}
_CUSTOM = 1000, 100
"""Priorities of groups and versions of custom kinds, and of those of plugins."""


class ApiServiceStrategy(Strategy):
    """APIServices, named after their group version; local ones are always available."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")

    def default(self, new: Object) -> None:
        DEFAULTS.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = local_status() if is_local(new) else {}

    def validate(self, new: Object) -> list[Cause]:
        return validate_api_service(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_api_service_status(new.get("status") or {}) if subresource else self.validate(new)


def is_local(obj: Object) -> bool:
    """Return whether this server serves the group version of the APIService *obj*, as it names no service."""
    return dig(obj, ("spec", "service")) is None


def always_local_groups(identity: Identity) -> tuple[str, ...]:
    """Return the groups that are never proxied: core, API registration, authentication and authorization."""
    return ("", *(identity.group(short) for short in (GROUP, "authentication", "authorization")))


def local_status() -> Object:
    """Return the status of a local APIService."""
    return {"conditions": [available("True", "Local", "Local APIServices are always available")]}


def available(status: str, reason: str, message: str) -> Object:
    """Return the condition Available of an APIService."""
    return {
        "type": "Available",
        "status": status,
        "lastTransitionTime": objects.now(),
        "reason": reason,
        "message": message,
    }


def priorities(group: str, version: str, identity: Identity) -> tuple[int, int] | None:
    """Return the priority of *group* among groups and of *version* in it, ``None`` for a group that is not registered.

    Higher priorities come first.
    """
    short = _short(group, identity)
    if short is None:
        return None if group == identity.group(GROUP) else _CUSTOM
    return (_PLAIN | _QUALIFIED)[short], _VERSIONS.get((short, version), _STAGES.get(version, 1))


def order(group: str, version: str, identity: Identity) -> tuple[int, str, int]:
    """Return the sort key of a group version in discovery: API registration first, then by priority and name."""
    if group == identity.group(GROUP):
        return -GROUP_LIMIT, group, 0
    group_priority, version_priority = priorities(group, version, identity) or (0, 0)
    return -group_priority, group, -version_priority


def resources(settings: KindSettings) -> list[Resource]:
    group = settings.identity.group(GROUP)
    return [
        Resource(
            group,
            "v1",
            "APIService",
            "apiservices",
            namespaced=False,
            categories=("api-extensions",),
            storage_key=f"{group}/apiservices",
            metadata_rules=MetadataRules(standard_finalizers=False),
            subresource_rules=MetadataRules(whole=0, standard_finalizers=False),
            strategy=ApiServiceStrategy(),
            subresources=(Subresource("status", shows_tables=False),),
            columns=(NAME, Column("Service", _service), Column("Available", _available), AGE),
            repeats_columns=True,
            unconditional_update=False,
            object_name_problems=_name_problems,
            reset_fields={"status": ("spec", "metadata")},
        )
    ]


def is_built_in(group: str, identity: Identity) -> bool:
    """Return whether *group* is one of the bundled groups."""
    return _short(group, identity) is not None


def _short(group: str, names: Identity) -> str | None:
    if group in _PLAIN:
        return group
    return next((short for short in _QUALIFIED if names.group(short) == group), None)


def _name_problems(name: str, obj: Object) -> list[str]:
    return api_service_name_problems(name, obj.get("spec") or {})


def _service(obj: Object) -> str:
    service = dig(obj, ("spec", "service"))
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Object) -> str:
    for item in dig(obj, ("status", "conditions")) or ():
        if item.get("type") == "Available":
            status, reason = str(item.get("status")), item.get("reason")
            return status if status == "True" or not reason else f"{status} ({reason})"
    return "Unknown"
