"""Tests for the node affinity of PersistentVolumes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from nodeagent.model.persistent_volume import PersistentVolume
from nodeagent.model.volume_affinity import volume_matches_node

IN_A = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}


@pytest.mark.parametrize(
    ("affinity", "labels", "matches"),
    [
        (None, {}, True),
        ({}, {}, True),
        (IN_A, {"zone": "a"}, True),
        (IN_A, {"zone": "b"}, False),
        ({"required": {"nodeSelectorTerms": []}}, {}, False),
    ],
)
def test_volume_matches_nodes_of_its_affinity(affinity: Any, labels: dict[str, str], matches: bool) -> None:
    pv = msgspec.convert({"spec": {"nodeAffinity": affinity}}, PersistentVolume)

    assert volume_matches_node(pv, labels, "node-1") is matches
