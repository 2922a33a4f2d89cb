"""CertificateSigningRequests, stored with the identity of the requesting user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource, any_name_problems
from apiserver_stub.validation.certificate_requests import DECISIONS, validate_request, validate_request_update
from apiserver_stub.validation.metadata import KIND_RULES

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity

_APPROVAL, _STATUS = "approval", "status"


class SigningRequestStrategy(Strategy):
    """CertificateSigningRequests; the spec is immutable, approval and status have separate subresources."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        new["spec"] = old["spec"]
        before: Object = old.get("status") or {}
        if not subresource:
            new["status"] = before
            return
        status: Object = new.get("status") or {}
        stored: list[Object] = before.get("conditions") or []
        conditions: list[Object] = status.pop("conditions", None) or []
        if subresource == _STATUS:
            conditions = _with_decisions(conditions, stored)
        else:
            status = {name: value for name, value in before.items() if name != "conditions"}
        dated = [_dated(condition, stored) for condition in conditions]
        new["status"] = {**status, "conditions": dated} if dated else status

    def validate(self, new: Object) -> list[Cause]:
        return validate_request(new, self._identity)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_request_update(new, old, subresource, self._identity)


def _with_decisions(conditions: list[Object], stored: list[Object]) -> list[Object]:
    """Return *conditions* with the *stored* decisions; added or removed decisions remain, for validation."""
    result = list(conditions)
    for type_ in DECISIONS:
        positions = [index for index, condition in enumerate(result) if condition.get("type") == type_]
        decisions = [condition for condition in stored if condition.get("type") == type_]
        if len(positions) == len(decisions):
            for index, condition in zip(positions, decisions, strict=True):
                result[index] = condition
    return result


def _dated(condition: Object, stored: list[Object]) -> Object:
    """Return *condition* with its times; an unchanged status keeps the transition time in *stored*."""
    now = objects.now()
    result = {**condition, "lastUpdateTime": condition.get("lastUpdateTime") or now}
    if not condition.get("lastTransitionTime"):
        state = condition.get("type"), condition.get("status")
        times = (item.get("lastTransitionTime") for item in stored if (item.get("type"), item.get("status")) == state)
        result["lastTransitionTime"] = next(filter(None, times), now)
    return result


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            settings.identity.group("certificates"),
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
            strategy=SigningRequestStrategy(settings.identity),
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
