"""Certificate signing requests: kept with who asked, approved and signed by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, invalid_value, required
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_DECISIONS = ("Approved", "Denied")


class SigningRequestStrategy(Strategy):
    """The request itself never changes; approval and signature have a subresource each."""

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = [required(f"spec.{name}") for name in ("request", "usages", "signerName") if not spec.get(name)]
        signer = spec.get("signerName") or ""
        if signer and "/" not in signer:
            detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            causes.append(invalid_value("spec.signerName", signer, detail))
        return causes

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        status, before = new.get("status") or {}, old.get("status") or {}
        if not subresource:
            super().prepare_update(new, old, subresource)
        else:
            given = status.get("conditions") or []
            deciding = subresource == "approval"
            conditions = [item for item in before.get("conditions") or () if (item["type"] in _DECISIONS) != deciding]
            conditions += [item for item in given if (item.get("type") in _DECISIONS) == deciding]
            merged = {**before, "conditions": conditions}
            if not deciding and status.get("certificate"):
                merged["certificate"] = status["certificate"]
            metadata = new["metadata"]
            new.clear()
            new.update({**old, "metadata": {**old["metadata"], **metadata}, "status": merged})
        new["spec"] = old["spec"]

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        types = {item.get("type") for item in dig(new, ("status", "conditions")) or ()}
        causes = []
        if types.issuperset(_DECISIONS):
            detail = "Approved and Denied conditions are mutually exclusive"
            causes.append(invalid_value("status.conditions", "Denied", detail))
        before = dig(old, ("status", "certificate"))
        if before and dig(new, ("status", "certificate")) != before:
            detail = "updates may not modify existing certificate content"
            causes.append(invalid_value("status.certificate", "", detail))
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            identity.current().group("certificates"),
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            namespaced=False,
            short_names=("csr",),
            free_names=True,
            strategy=SigningRequestStrategy(),
            subresources=(Subresource("approval"), Subresource("status")),
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
    from apiserver_stub.tables import short

    seconds = dig(obj, ("spec", "expirationSeconds"))
    return short(seconds) if seconds else "<none>"


def _condition(obj: Object) -> str:
    types = [item["type"] for item in dig(obj, ("status", "conditions")) or ()]
    words = types or ["Pending"]
    return ",".join(words + ["Issued"] * bool(dig(obj, ("status", "certificate"))))
