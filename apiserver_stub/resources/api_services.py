"""API services: which group versions are served, and in which order clients prefer them."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import path_problems, subdomain_problems
from nodeagent.base import identity
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

GROUP = "apiregistration"
_GROUP_LIMIT, _VERSION_LIMIT = 20_000, 1_000
_STATUSES = ("False", "True", "Unknown")
_VERSION = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_VERSION_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_VERSION}')"
)
_KEPT_HERE = "this group is always served by the API server itself and never passed on to a service"
DEFAULT_PORT = 443
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
    "resource": 15900,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("admissionregistration", "v1beta1"): 12,
    ("admissionregistration", "v1alpha1"): 9,
    ("flowcontrol.apiserver", "v1"): 21,
    ("flowcontrol.apiserver", "v1beta3"): 18,
    ("internal.apiserver", "v1alpha1"): 9,
    ("resource", "v1alpha2"): 9,
}
_STAGES = {"v1": 15, "v1beta1": 9, "v1alpha1": 1}


class ApiServiceStrategy(Strategy):
    """It is named after its group version; a local one is always available, of others it is found out."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")

    def default(self, new: Object) -> None:
        service = dig(new, ("spec", "service"))
        if isinstance(service, dict) and service.get("port") is None:
            service["port"] = DEFAULT_PORT

    def prepare_create(self, new: Object) -> None:
        new["status"] = local_status() if is_local(new) else {}

    def validate(self, new: Object) -> list[Cause]:
        return _named_after_group_version(new) + self._check_spec(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return [
                not_supported(f"status.conditions[{index}].status", item.get("status") or "", _STATUSES)
                for index, item in enumerate(dig(new, ("status", "conditions")) or ())
                if item.get("status") not in _STATUSES
            ]
        return self.validate(new)

    def _check_spec(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        group, version = spec.get("group") or "", spec.get("version") or ""
        causes = []
        if not group and version != "v1":
            causes.append(required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
        if group:
            causes += [invalid_value("spec.group", group, problem) for problem in subdomain_problems(group)]
        causes += [invalid_value("spec.version", version, problem) for problem in _version_problems(version)]
        for name, limit in (("groupPriorityMinimum", _GROUP_LIMIT), ("versionPriority", _VERSION_LIMIT)):
            value = spec.get(name) or 0
            if not 0 < value <= limit:
                causes.append(invalid_value(f"spec.{name}", value, f"must be positive and less than {limit}"))
        if not is_local(new):
            return causes + _service_problems(spec)
        if spec.get("caBundle"):
            size = len(base64.b64decode(spec["caBundle"]))
            causes.append(invalid_value("spec.caBundle", f"{size} bytes", "local APIServices may not have a caBundle"))
        if spec.get("insecureSkipTLSVerify"):
            detail = "local APIServices may not have insecureSkipTLSVerify"
            causes.append(invalid_value("spec.insecureSkipTLSVerify", True, detail))
        return causes


def is_local(obj: Object) -> bool:
    """Return whether the API service *obj* names no service that would answer for it."""
    return dig(obj, ("spec", "service")) is None


def kept_here() -> tuple[str, ...]:
    """Return the groups that are never passed on: the core, and what says who may do what and who serves what."""
    names = identity.current()
    return ("", *(names.group(short) for short in (GROUP, "authentication", "authorization")))


def local_status() -> Object:
    """Return the status of a local API service."""
    return {"conditions": [available("True", "Local", "Local APIServices are always available")]}


def available(status: str, reason: str, message: str) -> Object:
    """Return the condition that tells whether a group version is available."""
    return {
        "type": "Available",
        "status": status,
        "lastTransitionTime": objects.now(),
        "reason": reason,
        "message": message,
    }


def priorities(group: str, version: str, names: Identity | None = None) -> tuple[int, int] | None:
    """Return the priority of *group* among groups and of *version* in it, ``None`` for what registers nothing.

    The higher one comes first. Groups have the *names* in force or given.
    """
    short = _short(group, names or identity.current())
    if short is None:
        return None
    return (_PLAIN | _QUALIFIED)[short], _VERSIONS.get((short, version), _STAGES.get(version, 1))


def order(group: str, version: str) -> tuple[int, int]:
    """Return by what group versions are sorted in discovery: the registration itself first, then by priority."""
    if group == identity.current().group(GROUP):
        return -_GROUP_LIMIT, 0
    group_priority, version_priority = priorities(group, version) or (0, 0)
    return -group_priority, -version_priority


def resources(options: Options) -> list[Resource]:
    group = identity.current().group(GROUP)
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
            unconditional_update=False,
            name_problems=path_problems,
        )
    ]


def _short(group: str, names: Identity) -> str | None:
    if group in _PLAIN:
        return group
    return next((short for short in _QUALIFIED if names.group(short) == group), None)


def _named_after_group_version(obj: Object) -> list[Cause]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if not name or name == wanted:
        return []
    return [invalid_value("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')]


def _service_problems(spec: Object) -> list[Cause]:
    service = spec["service"]
    causes = [required(f"spec.service.{name}") for name in ("namespace", "name") if not service.get(name)]
    if not 0 < (port := service.get("port") or 0) <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        causes.append(invalid_value("spec.service.port", port, detail))
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        causes.append(invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present"))
    if (spec.get("group") or "") in kept_here():
        causes.append(forbidden_value("spec.service", _KEPT_HERE))
    return causes


def _version_problems(version: str) -> list[str]:
    problems = [] if len(version) <= 63 else ["must be no more than 63 characters"]
    return problems if re.fullmatch(_VERSION, version) else [*problems, _VERSION_RULE]


def _service(obj: Object) -> str:
    service = dig(obj, ("spec", "service"))
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Object) -> str:
    for item in dig(obj, ("status", "conditions")) or ():
        if item.get("type") == "Available":
            status, reason = str(item.get("status")), item.get("reason")
            return status if status == "True" or not reason else f"{status} ({reason})"
    return "Unknown"
