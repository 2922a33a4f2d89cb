"""Certificate signing requests: kept with who asked, approved and signed by others."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, duplicate, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.metadata import KIND_RULES
from apiserver_stub.validation.names import label_problems, path_problems, subdomain_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

_DECISIONS = ("Approved", "Denied")
_SHORTEST_SECONDS = 600
_PEM_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----")
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


class SigningRequestStrategy(Strategy):
    """The request itself never changes; approval and signature have a subresource each."""

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        spec = new.get("spec") or {}
        causes = _request_causes(spec.get("request") or "")
        usages = spec.get("usages") or []
        if not usages:
            causes.append(required("spec.usages"))
        for index, usage in enumerate(usages):
            if usage not in _USAGES:
                causes.append(not_supported(f"spec.usages[{index}]", usage, _USAGES))
            if usage in usages[:index]:
                causes.append(duplicate(f"spec.usages[{index}]", usage))
        causes += _signer_causes(spec.get("signerName") or "")
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_SECONDS:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            causes.append(invalid_value("spec.expirationSeconds", seconds, detail))
        return causes

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        status, before = new.get("status") or {}, old.get("status") or {}
        if not subresource:
            super().prepare_update(new, old, subresource)
        else:
            known = list(before.get("conditions") or ())
            given = list(status.get("conditions") or ())
            if subresource == "status":  # decisions are made elsewhere: who repeats them changes nothing
                given = [next((one for one in known if _same_decision(one, item)), item) for item in given]
            merged = {**before, "conditions": [_dated(item, known) for item in given]}
            if not given:
                del merged["conditions"]
            if subresource == "status" and status.get("certificate"):
                merged["certificate"] = status["certificate"]
            metadata = new["metadata"]
            new.clear()
            new.update({**old, "metadata": {**old["metadata"], **metadata}, "status": merged})
        new["spec"] = old["spec"]

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        after, before = (list(dig(item, ("status", "conditions")) or ()) for item in (new, old))
        causes = _condition_causes(after)
        for type_ in (*_DECISIONS, "Failed"):
            count, counted = (sum(item.get("type") == type_ for item in items) for items in (after, before))
            if count < counted:
                detail = f'updates may not remove a condition of type "{type_}"'
                causes.append(forbidden_value("status.conditions", detail))
            elif count > counted and subresource != "approval" and type_ in _DECISIONS:
                detail = f'updates may not add a condition of type "{type_}"'
                causes.append(forbidden_value("status.conditions", detail))
        signed, certificate = (dig(item, ("status", "certificate")) for item in (old, new))
        if certificate and certificate != signed and not _PEM_CERTIFICATE.search(_decoded(certificate)):
            detail = "must contain at least one CERTIFICATE PEM block"
            causes.append(invalid_value("status.certificate", "<certificate data>", detail))
        if signed and certificate != signed:
            causes.append(forbidden_value("status.certificate", "updates may not modify existing certificate content"))
        return causes


def _request_causes(request: str) -> list[Cause]:
    """Return why *request* is no signing request in PEM."""
    from cryptography import x509

    text = _decoded(request)
    problem = ""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        problem = "PEM block type must be CERTIFICATE REQUEST"
    else:
        try:
            x509.load_pem_x509_csr(text)
        except ValueError as error:
            problem = str(error)
    return [invalid_value("spec.request", request, problem)] if problem else []


def _signer_causes(signer: str) -> list[Cause]:
    field = "spec.signerName"
    if not signer:
        return [required(field)]
    if signer == identity.current().label("legacy-unknown"):
        return [invalid_value(field, signer, "the legacy signerName is not allowed via this API version")]
    domain, slash, path = signer.partition("/")
    if not slash or not path or "/" in path:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(field, signer, detail)]
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        return [invalid_value(field, domain, detail)]
    causes = [invalid_value(field, domain, problem) for problem in subdomain_problems(domain)]
    return causes + [
        invalid_value(field, part, f'validating label "{part}": {problem}')
        for part in path.split(".")
        for problem in label_problems(part)
    ]


def _condition_causes(conditions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    seen: list[str] = []
    for index, item in enumerate(conditions):
        field, type_, status = f"status.conditions[{index}]", item.get("type") or "", item.get("status") or ""
        allowed = ("True",) if type_ in (*_DECISIONS, "Failed") else ("False", "True", "Unknown")
        if not type_:
            causes.append(required(f"{field}.type"))
        if not status:
            causes.append(required(f"{field}.status"))
        elif status not in allowed:
            causes.append(not_supported(f"{field}.status", status, allowed))
        if type_ in _DECISIONS and any(other in seen for other in _DECISIONS if other != type_):
            detail = "Approved and Denied conditions are mutually exclusive"
            causes.append(invalid_value(f"{field}.type", type_, detail))
        if type_ in seen:
            causes.append(duplicate(f"{field}.type", type_))
        seen.append(type_)
    return causes


def _same_decision(known: Object, item: Object) -> bool:
    return known.get("type") in _DECISIONS and known.get("type") == item.get("type")


def _dated(item: Object, known: list[Object]) -> Object:
    """Return a condition with its times: the change is as old as the same status that was known."""
    now = objects.now()
    same = [one for one in known if (one.get("type"), one.get("status")) == (item.get("type"), item.get("status"))]
    changed = next((time for one in same if (time := one.get("lastTransitionTime"))), now)
    return {"lastUpdateTime": now, "lastTransitionTime": changed} | {
        name: value for name, value in item.items() if value
    }


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)  # its alphabet was checked with the types


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            identity.current().group("certificates"),
            "v1",
            "CertificateSigningRequest",
            "certificatesigningrequests",
            namespaced=False,
            short_names=("csr",),
            name_problems=path_problems,
            subresource_rules=KIND_RULES,
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
    types = {item["type"] for item in dig(obj, ("status", "conditions")) or ()}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    words += ["Failed"] * ("Failed" in types)
    return ",".join(words + ["Issued"] * bool(dig(obj, ("status", "certificate"))))
