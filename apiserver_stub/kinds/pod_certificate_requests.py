"""PodCertificateRequests: certificates that node agents request for their pods."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, invalid_value
from apiserver_stub.defaulting.table import Defaults
from apiserver_stub.kinds.columns import NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.kinds.versions import with_version
from apiserver_stub.validation.pod_certificate_requests import validate_pod_certificate_request
from apiserver_stub.validation.pod_certificate_status import decision_of, validate_status_update
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_ALPHA, _BETA = Release(1, 34), Release(1, 35)
"""Releases with version ``v1alpha1``, and from which version ``v1beta1`` is served."""
_DEFAULTS = Defaults(below={"spec": Defaults({"maxExpirationSeconds": 86400})})


class PodCertificateRequestStrategy(Strategy):
    """PodCertificateRequests: the spec is immutable, the signer writes the status once."""

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")

    def default(self, new: Object) -> None:
        _DEFAULTS.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        return validate_pod_certificate_request(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_status_update(new, old, datetime.now(UTC))
        spec = new.get("spec") or {}
        return [] if spec == (old.get("spec") or {}) else [invalid_value("spec", spec, "field is immutable")]


def resources(settings: KindSettings) -> list[Resource]:
    release = settings.compatibility_version
    if release < _ALPHA or not settings.gates.enabled("PodCertificateRequest"):
        return []
    spec_fields = ("signerName", "podName", "nodeName")
    group, version = settings.identity.group("certificates"), "v1beta1" if release >= _BETA else "v1alpha1"
    return [
        Resource(
            group,
            version,
            "PodCertificateRequest",
            "podcertificaterequests",
            strategy=PodCertificateRequestStrategy(),
            subresources=(Subresource("status"),),
            convert=partial(with_version, group, version),
            columns=(
                NAME,
                at("PodName", "spec.podName", default=""),
                at("ServiceAccountName", "spec.serviceAccountName", default=""),
                at("NodeName", "spec.nodeName", default=""),
                at("SignerName", "spec.signerName", default=""),
                Column("State", lambda request: decision_of(request) or "Pending"),
                Column("UnverifiedUserAnnotations", _annotations),
            ),
            fields={f"spec.{name}": ("spec", name) for name in spec_fields},
            reset_fields={"": (), "status": ("spec",)},
            unconditional_update=False,
        )
    ]


def _annotations(request: Object) -> str:
    pairs = sorted((dig(request, ("spec", "unverifiedUserAnnotations")) or {}).items())
    return ",".join(f"{name}={value}" for name, value in pairs) or "<none>"
