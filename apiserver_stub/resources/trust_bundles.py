"""Cluster trust bundles: the anchors of a signer, for whoever has to believe it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import NAME, at
from apiserver_stub.resources.registry import Resource, Strategy
from apiserver_stub.status import Cause, invalid_value
from apiserver_stub.validation.names import path_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options


class TrustBundleStrategy(Strategy):
    """A bundle of a signer is named after it; the signer stays; the bundle holds certificates."""

    def validate(self, new: Object) -> list[Cause]:
        from cryptography import x509

        spec, name = new.get("spec") or {}, new["metadata"].get("name") or ""
        signer, causes = spec.get("signerName") or "", []
        prefix = signer.replace("/", ":") + ":"
        if signer and not name.startswith(prefix):
            detail = f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
            causes.append(invalid_value("metadata.name", name, detail))
        if not signer and ":" in name:
            detail = 'ClusterTrustBundle without signer name must not have ":" in its name'
            causes.append(invalid_value("metadata.name", name, detail))
        try:
            x509.load_pem_x509_certificates(str(spec.get("trustBundle") or "").encode())
        except ValueError:
            causes.append(
                invalid_value("spec.trustBundle", "<value omitted>", "at least one trust anchor must be provided")
            )
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes, path = self.validate(new), ("spec", "signerName")
        if (dig(new, path) or "") != (dig(old, path) or ""):
            causes.append(invalid_value("spec.signerName", dig(new, path) or "", "field is immutable"))
        return causes


def resources(options: Options) -> list[Resource]:
    if not options.gates.enabled("ClusterTrustBundle"):
        return []
    return [
        Resource(
            identity.current().group("certificates"),
            "v1alpha1",
            "ClusterTrustBundle",
            "clustertrustbundles",
            namespaced=False,
            strategy=TrustBundleStrategy(),
            columns=(NAME, at("SignerName", "spec.signerName", default="")),
            fields={"spec.signerName": ("spec", "signerName")},
            name_problems=path_problems,
        )
    ]
