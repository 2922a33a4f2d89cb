"""Tests for the systemd driver."""

from __future__ import annotations

import pytest

from nodeagent.errors import ConfigError
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.systemd_driver import limit_properties
from tests.unit.plugins.cgroups.conftest import GI, MI

INFINITY = 2**64 - 1
AMOUNTS = {"cpu": "1500m", "memory": "64Mi"}
POD = make_pod(uid="1-2", containers=[make_container(resources={"limits": AMOUNTS, "requests": AMOUNTS})])
SLICE = "kubepods-pod1_2.slice"


@pytest.fixture(autouse=True)
def _connected(systemd, kernel):
    systemd.kernel = kernel


@pytest.mark.row("config.cgroupDriver")
async def test_pod_gets_a_slice_with_its_limits(agent, kernel, systemd):
    _, manager = agent(cgroup_driver="systemd", pod_pids_limit=50)
    await manager.start()
    await manager.ensure_pod(POD)

    unit = systemd.units[SLICE]
    assert unit["Wants"] == ["kubepods.slice"]
    assert unit["DefaultDependencies"] is False
    assert unit["CPUQuotaPerSecUSec"] == 1_500_000
    assert unit["TasksMax"] == 50
    if kernel.version == 1:
        assert (unit["CPUShares"], unit["MemoryLimit"]) == (1536, 64 * MI)
    else:
        assert (unit["CPUWeight"], unit["MemoryMax"]) == (59, 64 * MI)
    assert kernel.read(f"/kubepods.slice/{SLICE}", "pids.max") == "50"
    assert manager.parent_of(POD) == SLICE


@pytest.mark.row("config.cgroupDriver")
async def test_missing_systemd_fails_the_start(agent, monkeypatch, tmp_path):
    monkeypatch.setattr(cgroups, "_SYSTEMD", tmp_path / "nowhere")
    _, manager = agent(cgroup_driver="systemd")
    with pytest.raises(ConfigError, match=r"cgroupDriver.*requires a host with systemd"):
        await manager.start()


async def test_all_pods_and_classes_have_slices(agent, kernel, systemd):
    _, manager = agent(cgroup_driver="systemd", system_reserved={"memory": "1Gi"})
    await manager.start()
    memory = "MemoryLimit" if kernel.version == 1 else "MemoryMax"

    assert systemd.units["kubepods.slice"][memory] == 7 * GI
    assert systemd.units["kubepods.slice"]["TasksMax"] == 30_000
    assert "Wants" not in systemd.units["kubepods.slice"]
    assert systemd.units["kubepods-burstable.slice"]["Wants"] == ["kubepods.slice"]
    assert systemd.units["kubepods-burstable.slice"][memory] == INFINITY
    assert kernel.exists("/kubepods.slice/kubepods-besteffort.slice")


async def test_slices_below_a_root(agent, kernel, systemd):
    kernel.make("/a.slice/a-b.slice")
    _, manager = agent(cgroup_driver="systemd", cgroup_root="/a.slice/a-b.slice")
    await manager.start()
    assert kernel.exists("/a.slice/a-b.slice/a-b-kubepods.slice/a-b-kubepods-burstable.slice")


async def test_pods_from_before_a_restart_are_found_and_removed(agent, kernel, systemd):
    _, earlier = agent(cgroup_driver="systemd")
    await earlier.start()
    await earlier.ensure_pod(POD)

    _, manager = agent(cgroup_driver="systemd")
    assert await manager.pods() == ["1-2"]
    await manager.ensure_pod(POD)
    await manager.remove_pod("1-2")

    assert systemd.stopped == [SLICE]
    assert not kernel.exists(f"/kubepods.slice/{SLICE}")
    assert await manager.pods() == []


async def test_removed_slices_of_pods_are_detected(agent, kernel, systemd):
    _, manager = agent(cgroup_driver="systemd")
    await manager.start()
    await manager.ensure_pod(POD)
    assert await manager.exists(POD)

    for directory in kernel.directories(f"/kubepods.slice/{SLICE}"):
        directory.rmdir()
    await manager.update()

    assert not await manager.exists(POD)


async def test_reserved_slices_get_their_limits(agent, kernel, systemd):
    systemd.units["system.slice"] = {}
    kernel.make("/system.slice")
    _, manager = agent(
        cgroup_driver="systemd",
        enforce_node_allocatable=("system-reserved",),
        system_reserved_cgroup="/system.slice",
        system_reserved={"memory": "1Gi"},
    )
    await manager.start()
    assert systemd.units["system.slice"] == {("MemoryLimit" if kernel.version == 1 else "MemoryMax"): GI}


def test_custom_period_is_a_unit_property():
    limits = CgroupLimits(cpu_quota=15_000, cpu_period=10_000)
    assert limit_properties(limits, unified=True) == [
        ("CPUQuotaPerSecUSec", "t", 1_500_000),
        ("CPUQuotaPeriodUSec", "t", 10_000),
    ]
