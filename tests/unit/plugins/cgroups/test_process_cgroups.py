"""Tests for cgroups of processes outside of pods, on both versions and with both drivers."""

from __future__ import annotations

from nodeagent.contracts.cgroups import ProcessCgroups, ProcessLimits
from tests.unit.plugins.cgroups.conftest import MI, FakeKernel, FakeSystemd, MakeAgent

LIMITS = ProcessLimits(memory_bytes=64 * MI, cpu_millis=500, pids=32)
NAME = "/nodeagent_plugins/shelf_1"


async def test_cgroup_has_the_limits_and_accepts_processes(agent: MakeAgent, kernel: FakeKernel) -> None:
    _, manager = agent()
    await manager.start()

    files = await manager.ensure_processes("shelf_1", LIMITS)
    files[0].write_text("4711")

    assert {file.parent for file in files} == set(kernel.directories(NAME))
    if kernel.version == 1:
        values = [kernel.read(NAME, file) for file in ("memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max")]
        assert values == [str(64 * MI), "50000", "32"]
    else:
        values = [kernel.read(NAME, file) for file in ("memory.max", "cpu.max", "pids.max")]
        assert values == [str(64 * MI), "50000 100000", "32"]
    assert {4711} in kernel.processes(NAME)
    assert not kernel.exists("/kubepods/nodeagent_plugins")


async def test_removed_cgroup_is_missing_and_removal_is_idempotent(agent: MakeAgent, kernel: FakeKernel) -> None:
    _, manager = agent()
    await manager.start()
    await manager.ensure_processes("shelf_1", LIMITS)

    await manager.remove_processes("shelf_1")
    await manager.remove_processes("shelf_1")

    assert not kernel.exists(NAME)


async def test_cgroup_is_a_slice_with_systemd(agent: MakeAgent, kernel_v2: FakeKernel, systemd: FakeSystemd) -> None:
    systemd.kernel = kernel_v2
    _, manager = agent(cgroup_driver="systemd")
    await manager.start()

    (file,) = await manager.ensure_processes("shelf_1", LIMITS)

    assert file.parent.name == "nodeagent_plugins-shelf_1.slice"
    assert systemd.units["nodeagent_plugins-shelf_1.slice"]["MemoryMax"] == 64 * MI
    await manager.remove_processes("shelf_1")
    assert "nodeagent_plugins-shelf_1.slice" in systemd.stopped


async def test_manager_without_cgroups_has_none_for_processes(agent: MakeAgent, kernel: FakeKernel) -> None:
    _, manager = agent(cgroups_per_qos=False, enforce_node_allocatable=[])

    assert not isinstance(manager, ProcessCgroups)
