"""Tests for node allocatable enforcement."""

from __future__ import annotations

import errno

import pytest

from nodeagent.contracts.events import EventType
from nodeagent.errors import ConfigError
from nodeagent_plugins.cgroups.files import CgroupError, CgroupFiles
from tests.unit.plugins.cgroups.conftest import GI

BOTH = {"system_reserved": {"cpu": "1", "memory": "1Gi"}, "platform_reserved": {"cpu": "500m", "memory": "512Mi"}}


def limits(kernel, name):
    """Return shares or weight, memory and processes."""
    if kernel.version == 1:
        return [kernel.read(name, file) for file in ("cpu.shares", "memory.limit_in_bytes", "pids.max")]
    return [kernel.read(name, file) for file in ("cpu.weight", "memory.max", "pids.max")]


@pytest.mark.row("config.enforceNodeAllocatable", "config.systemReserved", "config.platformReserved")
async def test_pods_are_limited_to_capacity_minus_reservations(agent, kernel):
    context, manager = agent(**BOTH)
    await manager.start()

    shares = "2560" if kernel.version == 1 else "98"
    assert limits(kernel, "/kubepods") == [shares, str(6 * GI + GI // 2), "30000"]
    (event,) = context.recorder.of("NodeAllocatableEnforced")
    assert (event.type, event.note) == (EventType.NORMAL, "Updated Node Allocatable limit across pods")
    assert event.regarding.kind == "Node"


@pytest.mark.row("config.reservedSystemCPUs")
async def test_reserved_cpus_reduce_the_weight_of_pods(agent, kernel_v1):
    _, manager = agent(reserved_system_cpus="0-2", **BOTH)
    await manager.start()
    assert limits(kernel_v1, "/kubepods")[0] == "1024"


@pytest.mark.row("config.enforceNodeAllocatable")
@pytest.mark.parametrize("entries", [(), ("none",)])
async def test_without_enforcement_pods_have_the_node_weight_and_no_limit(agent, kernel, entries):
    _, earlier = agent(**BOTH)
    await earlier.start()
    context, manager = agent(enforce_node_allocatable=entries, **BOTH)
    await manager.start()

    expected = ["4096", "-1", "max"] if kernel.version == 1 else ["157", "max", "max"]
    assert limits(kernel, "/kubepods") == expected
    assert context.recorder.of("NodeAllocatableEnforced") == []


@pytest.mark.row("config.enforceNodeAllocatable")
async def test_limit_below_the_usage_is_retried_every_minute(agent, kernel_v1, monkeypatch):
    context, manager = agent()
    write = CgroupFiles._write

    def busy(self, controller, name, file, value):
        if file == "memory.limit_in_bytes" and name == ("kubepods",):
            raise OSError(errno.EBUSY, "Device or resource busy")
        write(self, controller, name, file, value)

    monkeypatch.setattr(CgroupFiles, "_write", busy)
    await manager.start()
    monkeypatch.setattr(CgroupFiles, "_write", write)
    await manager.update()
    await manager.update()

    assert context.recorder.reasons() == ["FailedNodeAllocatableEnforcement", "NodeAllocatableEnforced"]
    failed = context.recorder.events[0]
    assert failed.type is EventType.WARNING
    assert failed.note.startswith("Failed to update Node Allocatable Limits /kubepods: ")
    assert limits(kernel_v1, "/kubepods")[1] == str(8 * GI)


RESERVED = {
    "enforce_node_allocatable": ("pods", "system-reserved", "platform-reserved"),
    "system_reserved_cgroup": "/system",
    "platform_reserved_cgroup": "/platform/agent",
    **BOTH,
}


@pytest.mark.row("config.enforceNodeAllocatable", "config.systemReservedCgroup", "config.platformReservedCgroup")
async def test_reserved_cgroups_are_limited_to_their_reservations(agent, kernel):
    kernel.make("/system")
    kernel.make("/platform/agent")
    context, manager = agent(**RESERVED)
    await manager.start()

    assert limits(kernel, "/system")[:2] == ["1024" if kernel.version == 1 else "39", str(GI)]
    assert limits(kernel, "/platform/agent")[:2] == ["512" if kernel.version == 1 else "20", str(GI // 2)]
    notes = [event.note for event in context.recorder.of("NodeAllocatableEnforced")]
    assert "Updated limits on system reserved cgroup /system" in notes
    assert "Updated limits on platform reserved cgroup /platform/agent" in notes


@pytest.mark.row("config.systemReservedCgroup", "config.platformReservedCgroup")
@pytest.mark.parametrize(
    ("there", "field", "path"),
    [("/system", "platformReservedCgroup", "/platform/agent"), ("/platform/agent", "systemReservedCgroup", "/system")],
)
async def test_missing_reserved_cgroup_fails_the_start(agent, kernel, there, field, path):
    kernel.make(there)
    context, manager = agent(**RESERVED)

    with pytest.raises(ConfigError) as caught:
        await manager.start()

    (problem,) = caught.value.problems
    assert (problem.path, problem.value) == (field, path)
    assert "must exist before the agent starts" in problem.rule
    assert path in context.recorder.of("FailedNodeAllocatableEnforcement")[0].note
    assert not kernel.exists(path)


@pytest.mark.row("config.enforceNodeAllocatable")
async def test_reserved_cgroups_are_not_limited_unless_configured(agent, kernel):
    kernel.make("/system")
    _, earlier = agent(enforce_node_allocatable=("none",))
    await earlier.start()
    before = limits(kernel, "/system")
    _, manager = agent(system_reserved_cgroup="/system", platform_reserved_cgroup="/nowhere", **BOTH)
    await manager.start()
    assert limits(kernel, "/system") == before


async def test_kernel_error_fails_the_start(agent, kernel_v1, monkeypatch):
    kernel_v1.make("/system")

    def fail(self, name, limits):
        raise CgroupError("no")

    monkeypatch.setattr(CgroupFiles, "limit", fail)
    context, manager = agent(enforce_node_allocatable=("system-reserved",), system_reserved_cgroup="/system", **BOTH)
    with pytest.raises(CgroupError):
        await manager.start()
    assert context.recorder.reasons() == ["FailedNodeAllocatableEnforcement"]


async def test_memory_qos_protects_the_memory_of_reserved_cgroups(agent, kernel_v2):
    kernel_v2.make("/system")
    _, manager = agent(
        feature_gates={"MemoryQoS": True},
        enforce_node_allocatable=("system-reserved",),
        system_reserved_cgroup="/system",
        **BOTH,
    )
    await manager.start()
    assert kernel_v2.read("/system", "memory.min") == str(GI)


@pytest.mark.row("config.enforceNodeAllocatable")
async def test_compressible_enforcement_limits_only_the_cpu_share(agent, kernel):
    kernel.make("/platform")
    _, manager = agent(
        enforce_node_allocatable=("pods", "platform-reserved-compressible"),
        platform_reserved_cgroup="/platform",
        platform_reserved={"cpu": "500m", "memory": "512Mi", "pid": "1000"},
    )
    await manager.start()

    assert limits(kernel, "/platform") == (["512", "-1", "max"] if kernel.version == 1 else ["20", "max", "max"])


@pytest.mark.row("config.systemReserved", "config.platformReserved")
async def test_reserved_pids_limit_pods_and_the_reserved_cgroup(agent, kernel):
    kernel.make("/system")
    _, manager = agent(
        enforce_node_allocatable=("pods", "system-reserved"),
        system_reserved_cgroup="/system",
        system_reserved={"pid": "1000"},
        platform_reserved={"pid": "2000"},
    )
    await manager.start()

    assert limits(kernel, "/kubepods")[2] == "27000"
    assert limits(kernel, "/system")[2] == "1000"
