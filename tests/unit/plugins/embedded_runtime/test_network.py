"""Tests for the pod network: subnet and bridge."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.network import BridgeNetwork


def network(memory: Path) -> BridgeNetwork:
    """Return the network as after a restart of the runtime."""
    return BridgeNetwork("br0", "10.0.0.0/24", memory=memory)


def gateway(bridge: BridgeNetwork) -> str:
    return bridge._gateway


def test_pod_cidr_persists_across_runtime_restarts(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    assert gateway(network(memory)) == "10.0.0.1"

    network(memory).set_subnet("10.1.2.0/24")
    assert gateway(network(memory)) == "10.1.2.1"

    later = network(memory)
    later.set_subnet("10.1.3.0/24")
    assert gateway(later) == gateway(network(memory)) == "10.1.3.1"


def test_subnet_that_is_invalid_or_set_after_first_use_is_not_stored(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    with pytest.raises(InvalidArgument):
        network(memory).set_subnet("10.1.2.0/99")
    busy = network(memory)
    busy.occupy(["10.0.0.2"])
    busy.set_subnet("10.1.2.0/24")

    assert gateway(network(memory)) == "10.0.0.1"


def test_unreadable_stored_subnet_is_logged_and_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (memory := tmp_path / "pod-network").write_text("nonsense")

    assert gateway(network(memory)) == "10.0.0.1"
    assert "Failed to read stored pod subnet" in caplog.text


async def test_deleted_bridge_is_recreated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices: set[str] = set()
    created: list[str] = []

    class RecordingNetwork(BridgeNetwork):
        async def _make_bridge(self) -> None:
            devices.add("br0")
            created.append("br0")

    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.network._is_device", devices.__contains__)
    bridge = RecordingNetwork("br0", "10.0.0.0/24", memory=tmp_path / "pod-network")

    await bridge.prepare()
    await bridge.prepare()
    assert created == ["br0"]

    devices.clear()
    await bridge.prepare()
    assert created == ["br0", "br0"]
