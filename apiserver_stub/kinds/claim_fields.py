"""Fields of claims that depend on feature gates, and the two fields for their data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from nodeagent.base.gates import FeatureGates

_SOURCE, _REF = "dataSource", "dataSourceRef"


def settle_sources(gates: FeatureGates, identity: Identity, spec: Object, before: Object | None = None) -> None:
    """Drop data sources of disabled features, and copy the data source field that is set to the other one.

    spec: gate.AnyVolumeDataSource, gate.CrossNamespaceVolumeDataSource

    :param before: the stored spec, which is completed the same way.
    """
    any_source, old = gates.enabled("AnyVolumeDataSource"), before or {}
    if _REF not in old:
        namespaced = bool((spec.get(_REF) or {}).get("namespace"))
        if not any_source or (namespaced and not gates.enabled("CrossNamespaceVolumeDataSource")):
            spec.pop(_REF, None)
    if _SOURCE not in old and _REF not in old and _REF not in spec and not _is_classic(spec.get(_SOURCE), identity):
        spec.pop(_SOURCE, None)
    if any_source:
        _complete(spec)
        if before is not None:
            _complete(before)


def drop_from_claim_status(gates: FeatureGates, status: Object, before: Object) -> None:
    """Drop fields of disabled features from *status*, unless the stored status *before* has them.

    spec: gate.VolumeAttributesClass, gate.RecoverVolumeExpansionFailure
    """
    fields = {
        "VolumeAttributesClass": ("currentVolumeAttributesClassName", "modifyVolumeStatus"),
        "RecoverVolumeExpansionFailure": ("allocatedResources", "allocatedResourceStatuses"),
    }
    for gate, names in fields.items():
        if not gates.enabled(gate):
            for name in names:
                if name not in before:
                    status.pop(name, None)


def _is_classic(source: Object | None, identity: Identity) -> bool:
    """Return whether *source* is a claim or a snapshot, the only sources without the feature gate."""
    if source is None:
        return False
    group, kind = source.get("apiGroup") or "", source.get("kind")
    snapshots = f"snapshot.{identity.group('storage')}"
    return (kind, group) in (("PersistentVolumeClaim", ""), ("VolumeSnapshot", snapshots))


def _complete(spec: Object) -> None:
    source, ref = spec.get(_SOURCE), spec.get(_REF)
    if source is not None and ref is None:
        spec[_REF] = objects.clone(source)
    elif ref is not None and source is None and not ref.get("namespace"):
        spec[_SOURCE] = {name: value for name, value in ref.items() if name != "namespace"}
