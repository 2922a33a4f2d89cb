"""Topology of migrated PersistentVolumes: the labels of Kubernetes replaced by those of the CSI driver. No I/O."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from nodeagent.base.structs import Struct
from nodeagent.model.persistent_volume import PersistentVolume, VolumeNodeAffinity

ZONE_DELIMITER = "__"
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_LABELS = (_ZONE, _BETA_ZONE)


class TopologyKeys(Struct, frozen=True):
    """Labels of a driver for zones and regions."""

    zone: str
    region: str = ""
    """Empty if the driver has no regions; the label of Kubernetes is kept then."""
    several: bool = True
    """The zone label of a PersistentVolume may contain several zones."""


def translate_topology(pv: PersistentVolume, keys: TopologyKeys) -> VolumeNodeAffinity | None:
    """Return the node affinity of *pv* with the driver's labels; labels of *pv* apply where it has no affinity."""
    required = copy.deepcopy(pv.spec.node_affinity.required) if pv.spec.node_affinity else None
    zone, region = _present_labels(required, pv.metadata.labels or {})
    required = _translate(required, zone, keys.zone, pv, split=keys.several)
    if keys.region:
        required = _translate(required, region, keys.region, pv, split=False)
    elif region == _BETA_REGION:
        _rename(required, _BETA_REGION, _REGION)
    return VolumeNodeAffinity(required=required) if required is not None else pv.spec.node_affinity


def _present_labels(required: dict[str, Any] | None, labels: dict[str, str]) -> tuple[str, str]:
    """Return the labels for zone and region that the PersistentVolume uses."""
    keys = [expression.get("key") for expression in _expressions(required)]
    for names in (keys, labels):
        if _ZONE in names:
            return _ZONE, _REGION
        if _BETA_ZONE in names:
            return _BETA_ZONE, _BETA_REGION
    return _ZONE, _REGION


def _translate(
    required: dict[str, Any] | None, old: str, new: str, pv: PersistentVolume, *, split: bool
) -> dict[str, Any] | None:
    if any(expression.get("key") == old and expression.get("values") for expression in _expressions(required)):
        _rename(required, old, new)
        return required
    label = (pv.metadata.labels or {}).get(old, "")
    values = sorted({value.strip() for value in (label.split(ZONE_DELIMITER) if split else [label])} - {""})
    if not values:
        return required
    required = required or {}
    terms = required.setdefault("nodeSelectorTerms", []) or [{}]
    required["nodeSelectorTerms"] = terms
    for term in terms:
        expressions = term.setdefault("matchExpressions", [])
        expressions.append({"key": new, "operator": "In", "values": values})
    return required


def _rename(required: dict[str, Any] | None, old: str, new: str) -> None:
    for expression in _expressions(required):
        if expression.get("key") == old:
            expression["key"] = new


def _expressions(required: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    for term in (required or {}).get("nodeSelectorTerms") or ():
        yield from term.get("matchExpressions") or ()
