"""Tests for the kinds of dynamic resource allocation in their earlier versions."""

from __future__ import annotations

from apiserver_stub.kinds.devices import FlatStrategy
from apiserver_stub.kinds.registry import Strategy


def test_kind_with_the_same_structure_in_all_versions_is_unchanged() -> None:
    strategy, device_class = FlatStrategy("DeviceClass", Strategy()), {"metadata": {"name": "gpu"}, "spec": {}}

    strategy.default(device_class)
    strategy.prepare_create(device_class)

    assert device_class == {"metadata": {"name": "gpu"}, "spec": {}}
