"""ClusterTrustBundles: the trust anchors of signers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import NAME, at
from apiserver_stub.kinds.registry import Deprecation, Resource, Strategy
from apiserver_stub.kinds.versions import effective, with_version
from apiserver_stub.validation.signers import trust_bundle_name_problems
from apiserver_stub.validation.trust_bundles import validate_bundle, validate_bundle_update
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_BETA = Release(1, 33)
"""First release with version ``v1beta1``."""
_EARLIER = Deprecation("1.29", "1.32")
"""Deprecation of ``v1alpha1`` as announced before there was a later version."""


class TrustBundleStrategy(Strategy):
    """ClusterTrustBundles, with or without a signer name."""

    def __init__(self, release: Release) -> None:
        self._release = release

    def validate(self, new: Object) -> list[Cause]:
        return validate_bundle(new.get("spec") or {}, self._release)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_bundle_update(new.get("spec") or {}, old.get("spec") or {}, self._release)


def _name_problems(name: str, bundle: Object) -> list[str]:
    return trust_bundle_name_problems(name, dig(bundle, ("spec", "signerName")) or "")


def resources(settings: KindSettings) -> list[Resource]:
    if not settings.gates.enabled("ClusterTrustBundle"):
        return []
    group, strategy = settings.identity.group("certificates"), TrustBundleStrategy(settings.compatibility_version)
    has_beta = settings.compatibility_version >= _BETA
    versions = {"v1beta1": None, "v1alpha1": Deprecation("1.34", "1.37")} if has_beta else {"v1alpha1": _EARLIER}
    return [
        Resource(
            group,
            version,
            "ClusterTrustBundle",
            "clustertrustbundles",
            namespaced=False,
            strategy=strategy,
            columns=(NAME, at("SignerName", "spec.signerName")),
            fields={"spec.signerName": ("spec", "signerName")},
            convert=partial(with_version, group, version),
            renamed_fields={f"{group}/{other}": {} for other in versions if other != version},
            hashed_version="v1beta1" if has_beta else "",
            object_name_problems=_name_problems,
            deprecation=effective(deprecation, settings.compatibility_version),
            unconditional_update=False,
        )
        for version, deprecation in versions.items()
    ]
