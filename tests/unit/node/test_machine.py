"""Tests for the host description in the node status."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.base.release import OLDEST, Release, SelectedRelease
from nodeagent.contracts.api import NODES
from nodeagent.node.machine import online_cpus, read_machine, swap_capacity_bytes
from nodeagent.testing import FakeApi, FakeClock
from tests.unit.node.conftest import MakeNode


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


@pytest.mark.parametrize(("content", "enabled"), [("Y\n", True), ("N\n", False), (None, False)])
def test_apparmor_state_is_read_from_the_kernel(tmp_path: Path, content: str | None, enabled: bool) -> None:
    file = tmp_path / "sys/module/apparmor/parameters/enabled"
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_text(content)

    assert read_machine(tmp_path).apparmor is enabled


@pytest.mark.parametrize(
    ("files", "machine_id", "system_uuid"),
    [
        ({"etc/machine-id": "a\n", "sys/class/dmi/id/product_uuid": "b\n"}, "a", "b"),
        ({"etc/machine-id": "a\n", "var/lib/dbus/machine-id": "c\n"}, "a", "a"),
        ({"etc/machine-id": "", "var/lib/dbus/machine-id": "c\n"}, "c", "c"),
        ({}, "", ""),
    ],
)
def test_ids_of_the_host_are_read_from_the_first_file_that_has_one(
    tmp_path: Path, files: dict[str, str], machine_id: str, system_uuid: str
) -> None:
    write(tmp_path, files)

    found = read_machine(tmp_path)

    assert (found.machine_id, found.system_uuid) == (machine_id, system_uuid)


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"etc/os-release": 'NAME=x\nPRETTY_NAME="Debian 12"\n', "usr/lib/os-release": "PRETTY_NAME=y"}, "Debian 12"),
        ({"usr/lib/os-release": "PRETTY_NAME=y\n"}, "y"),
        ({}, "Linux"),
    ],
)
def test_name_of_the_operating_system_has_a_default(tmp_path: Path, files: dict[str, str], name: str) -> None:
    write(tmp_path, files)

    assert read_machine(tmp_path).os_image == name


@pytest.mark.parametrize(("content", "cpus"), [("0-1,3\n", {0, 1, 3}), ("5\n", {5})])
def test_online_cpus_are_read_from_the_kernel(tmp_path: Path, content: str, cpus: set[int]) -> None:
    write(tmp_path, {"sys/devices/system/cpu/online": content})

    assert online_cpus(tmp_path) == cpus


@pytest.mark.parametrize("files", [{}, {"sys/devices/system/cpu/online": "all\n"}])
def test_online_cpus_default_to_all(tmp_path: Path, files: dict[str, str]) -> None:
    write(tmp_path, files)

    assert online_cpus(tmp_path) == set(range(os.cpu_count() or 1))


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
