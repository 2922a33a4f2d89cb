"""VolumeAttributesClasses: attributes of volumes that their CSI driver can change."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Deprecation, Resource, Strategy
from apiserver_stub.kinds.versions import effective, with_version
from apiserver_stub.validation.storage_classes import validate_attributes_class, validate_attributes_class_update
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_BETA, _STABLE, _STORED_STABLE = Release(1, 31), Release(1, 34), Release(1, 36)
"""First releases with the versions ``v1beta1`` and ``v1``, and the first one that stores ``v1``."""
_LAST_ALPHA = Release(1, 35)


class AttributesClassStrategy(Strategy):
    """VolumeAttributesClasses; driver and parameters are immutable."""

    def validate(self, new: Object) -> list[Cause]:
        return validate_attributes_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_attributes_class_update(new, old)


def resources(settings: KindSettings) -> list[Resource]:
    """Return the versions that the release serves; none without the feature gate (spec: gate.VolumeAttributesClass)."""
    if not settings.gates.enabled("VolumeAttributesClass"):
        return []
    group, release = settings.identity.group("storage"), settings.compatibility_version
    versions = _versions(release)
    stored = "v1" if release >= _STORED_STABLE else "v1beta1" if release >= _BETA else "v1alpha1"
    deprecations = {
        "v1alpha1": Deprecation("1.32", "1.35"),
        "v1beta1": Deprecation("1.34", "1.37", f"{group}/v1 VolumeAttributesClass"),
    }
    return [
        Resource(
            group,
            version,
            "VolumeAttributesClass",
            "volumeattributesclasses",
            namespaced=False,
            short_names=("vac",),
            strategy=AttributesClassStrategy(),
            columns=(NAME, at("DriverName", "driverName"), AGE),
            convert=partial(with_version, group, version),
            renamed_fields={f"{group}/{other}": {} for other in versions if other != version},
            hashed_version=stored,
            deprecation=effective(deprecations.get(version), release),
            returns_deleted=True,
        )
        for version in versions
    ]


def _versions(release: Release) -> tuple[str, ...]:
    stable = ("v1",) if release >= _STABLE else ()
    beta = ("v1beta1",) if release >= _BETA else ()
    return (*stable, *beta, *(("v1alpha1",) if release <= _LAST_ALPHA else ()))
