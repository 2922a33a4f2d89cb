"""Which subnet pods get their addresses from."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.errors import BadRequest
from nodeagent_plugins.embedded_runtime.network import BridgeNetwork


def network(memory: Path) -> BridgeNetwork:
    """Return the network as a fresh run of the runtime has it."""
    return BridgeNetwork("br0", "10.0.0.0/24", memory=memory)


def gateway(bridge: BridgeNetwork) -> str:
    return bridge._gateway


def test_a_subnet_that_the_agent_gives_outlives_the_runtime(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    assert gateway(network(memory)) == "10.0.0.1"

    network(memory).set_subnet("10.1.2.0/24")
    assert gateway(network(memory)) == "10.1.2.1"

    later = network(memory)
    later.set_subnet("10.1.3.0/24")
    assert gateway(later) == gateway(network(memory)) == "10.1.3.1"


def test_a_subnet_that_is_refused_or_comes_too_late_is_not_kept(tmp_path: Path) -> None:
    memory = tmp_path / "pod-network"
    with pytest.raises(BadRequest):
        network(memory).set_subnet("10.1.2.0/99")
    busy = network(memory)
    busy.occupy(["10.0.0.2"])
    busy.set_subnet("10.1.2.0/24")

    assert gateway(network(memory)) == "10.0.0.1"


def test_a_memory_that_cannot_be_read_is_told_and_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (memory := tmp_path / "pod-network").write_text("nonsense")

    assert gateway(network(memory)) == "10.0.0.1"
    assert "is lost" in caplog.text
