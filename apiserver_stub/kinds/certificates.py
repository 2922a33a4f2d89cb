"""Certificate signing requests: kept with who asked, approved and signed by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource, any_name_problems
from apiserver_stub.validation.certificate_requests import DECISIONS, validate_request, validate_request_update
from apiserver_stub.validation.metadata import KIND_RULES
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_APPROVAL, _STATUS = "approval", "status"


class SigningRequestStrategy(Strategy):
    """Certificate signing requests, which never change; approval and status have a subresource each."""

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        new["spec"] = old["spec"]
        before: Object = old.get("status") or {}
        if not subresource:
            new["status"] = before
            return
        status: Object = new.get("status") or {}
        known: list[Object] = before.get("conditions") or []
        conditions: list[Object] = status.pop("conditions", None) or []
        if subresource == _STATUS:
            conditions = _with_decisions(conditions, known)
        else:
            status = {name: value for name, value in before.items() if name != "conditions"}
        dated = [_dated(condition, known) for condition in conditions]
        new["status"] = {**status, "conditions": dated} if dated else status

    def validate(self, new: Object) -> list[Cause]:
        return validate_request(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_request_update(new, old, subresource)


def _with_decisions(conditions: list[Object], known: list[Object]) -> list[Object]:
    """Return *conditions* with the *known* decisions, unless one is added or removed, which is an error."""
    found = list(conditions)
    for type_ in DECISIONS:
        places = [index for index, condition in enumerate(found) if condition.get("type") == type_]
        stored = [condition for condition in known if condition.get("type") == type_]
        if len(places) == len(stored):
            for index, condition in zip(places, stored, strict=True):
                found[index] = condition
    return found


def _dated(condition: Object, known: list[Object]) -> Object:
    """Return *condition* with its times: a status that was *known* keeps the time of its transition."""
    now = objects.now()
    found = {**condition, "lastUpdateTime": condition.get("lastUpdateTime") or now}
    if not condition.get("lastTransitionTime"):
        state = condition.get("type"), condition.get("status")
        times = (item.get("lastTransitionTime") for item in known if (item.get("type"), item.get("status")) == state)
        found["lastTransitionTime"] = next(filter(None, times), now)
    return found


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            identity.current().group("certificates"),
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            namespaced=False,
            short_names=("csr",),
            name_problems=any_name_problems,
            reset_fields={
                "": ("spec", "status"),
                _STATUS: ("spec", "status.conditions"),
                _APPROVAL: ("spec", "status.certificate"),
            },
            subresource_rules=KIND_RULES,
            strategy=SigningRequestStrategy(),
            subresources=(Subresource(_APPROVAL), Subresource(_STATUS)),
            columns=(
                NAME,
                AGE,
                at("SignerName", "spec.signerName"),
                at("Requestor", "spec.username"),
                Column("RequestedDuration", _duration),
                Column("Condition", _condition),
            ),
            fields={"spec.signerName": ("spec", "signerName")},
        )
    ]


def _duration(obj: Object) -> str:
    from apiserver_stub.kinds.tables import short

    seconds = dig(obj, ("spec", "expirationSeconds"))
    return short(seconds) if seconds else "<none>"


def _condition(obj: Object) -> str:
    types = {item["type"] for item in dig(obj, ("status", "conditions")) or ()}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    words += ["Failed"] * ("Failed" in types)
    return ",".join(words + ["Issued"] * bool(dig(obj, ("status", "certificate"))))
