"""Optional protocols that a kind of volume implements. No I/O."""

from __future__ import annotations

from typing import TypeVar

from nodeagent.base.structs import Struct
from nodeagent.contracts.persistent_volumes import (
    AttachableVolumeKind,
    BlockVolumeKind,
    DeviceVolumeKind,
    ExpandableVolumeKind,
    LabeledVolumeKind,
    LimitedVolumeKind,
    MeasuredVolumeKind,
    NodeAttachedVolumeKind,
    PersistentVolumeKind,
    RefreshedVolumeKind,
)

T = TypeVar("T")


class KindFeatures(Struct, frozen=True):
    """A kind in the form of each protocol that it implements; ``None`` for the others."""

    device: DeviceVolumeKind | None = None
    attachable: AttachableVolumeKind | None = None
    node_attached: NodeAttachedVolumeKind | None = None
    limited: LimitedVolumeKind | None = None
    block: BlockVolumeKind | None = None
    expandable: ExpandableVolumeKind | None = None
    refreshed: RefreshedVolumeKind | None = None
    labeled: LabeledVolumeKind | None = None
    measured: MeasuredVolumeKind | None = None


NO_FEATURES = KindFeatures()
"""The features of an adapted kind."""


def features_of(kind: PersistentVolumeKind) -> KindFeatures:
    """Return the features of *kind*; determined once per kind, because checks of protocols are slow."""
    known = _KNOWN.get(id(kind))
    if known is None:
        features = KindFeatures(
            kind if isinstance(kind, DeviceVolumeKind) else None,
            kind if isinstance(kind, AttachableVolumeKind) else None,
            kind if isinstance(kind, NodeAttachedVolumeKind) else None,
            kind if isinstance(kind, LimitedVolumeKind) else None,
            kind if isinstance(kind, BlockVolumeKind) else None,
            kind if isinstance(kind, ExpandableVolumeKind) else None,
            kind if isinstance(kind, RefreshedVolumeKind) else None,
            kind if isinstance(kind, LabeledVolumeKind) else None,
            kind if isinstance(kind, MeasuredVolumeKind) else None,
        )
        known = _KNOWN[id(kind)] = kind, features
    return known[1]


_KNOWN: dict[int, tuple[PersistentVolumeKind, KindFeatures]] = {}
"""Features by the ID of the kind, which is referenced so that its ID is not reused."""
