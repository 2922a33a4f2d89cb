"""Tests for the host description in the node status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.base.release import OLDEST, Release, SelectedRelease
from nodeagent.contracts.api import NODES
from nodeagent.node.machine import read_machine, swap_capacity_bytes
from nodeagent.testing import FakeApi, FakeClock
from tests.unit.node.conftest import MakeNode


@pytest.mark.parametrize(("content", "enabled"), [("Y\n", True), ("N\n", False), (None, False)])
def test_apparmor_state_is_read_from_the_kernel(tmp_path: Path, content: str | None, enabled: bool) -> None:
    file = tmp_path / "sys/module/apparmor/parameters/enabled"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_text(content)

    assert read_machine(tmp_path).apparmor is enabled


@pytest.mark.parametrize(
    ("enabled", "release", "gates", "message"),
    [
        (True, OLDEST, {}, "kubelet is posting ready status. AppArmor enabled"),
        (True, Release(1, 31), {}, "kubelet is posting ready status"),
        (False, OLDEST, {}, "kubelet is posting ready status"),
        (True, OLDEST, {"AppArmor": False}, "kubelet is posting ready status"),
    ],
)
async def test_ready_message_states_whether_apparmor_is_enabled(
    make_node: MakeNode,
    api: FakeApi,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    enabled: bool,
    release: Release,
    gates: dict[str, bool],
    message: str,
) -> None:
    machine = replace(read_machine(), apparmor=enabled)
    monkeypatch.setattr("nodeagent.node.status_inputs.read_machine", lambda: machine)

    async with make_node(release=SelectedRelease(release), feature_gates=gates).running():
        await clock.advance(2)

    node = api.find(NODES, "node-1", "")
    assert node is not None
    (ready,) = [c for c in node["status"]["conditions"] if c["type"] == "Ready"]
    assert (ready["status"], ready["message"]) == ("True", message)


@pytest.mark.parametrize(("content", "capacity"), [("MemTotal: 5 kB\nSwapTotal:  2048 kB\n", 2 << 20), (None, 0)])
def test_swap_capacity_is_read_from_the_kernel(tmp_path: Path, content: str | None, capacity: int) -> None:
    if content is not None:
        (tmp_path / "proc").mkdir()
        (tmp_path / "proc/meminfo").write_text(content)

    assert swap_capacity_bytes(tmp_path) == capacity


@pytest.mark.parametrize(("capacity", "expected"), [(4096, {"capacity": 4096}), (0, None)])
async def test_node_reports_swap_unless_there_is_none(
    make_node: MakeNode,
    api: FakeApi,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    capacity: int,
    expected: dict[str, int] | None,
) -> None:
    monkeypatch.setattr("nodeagent.node.status_inputs.swap_capacity_bytes", lambda: capacity)

    async with make_node().running():
        await clock.advance(2)

    node = api.find(NODES, "node-1", "")
    assert node is not None and node["status"]["nodeInfo"].get("swap") == expected
