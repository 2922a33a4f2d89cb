"""ClusterTrustBundles: the trust anchors of signers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import NAME, at
from apiserver_stub.kinds.registry import Deprecation, Resource, Strategy
from apiserver_stub.validation.signers import trust_bundle_name_problems
from apiserver_stub.validation.trust_bundles import validate_bundle, validate_bundle_update

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


class TrustBundleStrategy(Strategy):
    """ClusterTrustBundles, with or without a signer name."""

    def validate(self, new: Object) -> list[Cause]:
        return validate_bundle(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_bundle_update(new.get("spec") or {}, old.get("spec") or {})


def _name_problems(name: str, bundle: Object) -> list[str]:
    return trust_bundle_name_problems(name, dig(bundle, ("spec", "signerName")) or "")


def resources(settings: KindSettings) -> list[Resource]:
    if not settings.gates.enabled("ClusterTrustBundle"):
        return []
    return [
        Resource(
            settings.identity.group("certificates"),
            "v1alpha1",
            "ClusterTrustBundle",
            "clustertrustbundles",
            namespaced=False,
            strategy=TrustBundleStrategy(),
            columns=(NAME, at("SignerName", "spec.signerName")),
            fields={"spec.signerName": ("spec", "signerName")},
            object_name_problems=_name_problems,
            deprecation=Deprecation("1.29", "1.32"),
            unconditional_update=False,
        )
    ]
