"""Tests for cgroups on the host's kernel: creation, limits, adoption, listing and removal."""

from __future__ import annotations

import asyncio
import sys
import uuid
from pathlib import Path

import pytest

from nodeagent.errors import ConfigError
from nodeagent.testing import load_plugin, make_config, make_container, make_context, make_pod
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import Hierarchy, find_hierarchy
from nodeagent_plugins.cgroups.limits import CgroupLimits
from nodeagent_plugins.cgroups.machine import read_machine

MI = 1024**2
AMOUNTS = {"cpu": "500m", "memory": "64Mi"}
FULL = {"limits": AMOUNTS, "requests": AMOUNTS}


class Kernel:
    """Cgroups below a cgroup of the test."""

    def __init__(self, root: str) -> None:
        self.root = root
        hierarchy = find_hierarchy(Path("/proc/self/mountinfo").read_text())
        assert hierarchy is not None
        self.files = CgroupFiles(hierarchy, "test")
        self.make("")

    def name(self, below: str) -> tuple[str, ...]:
        return tuple(part for part in f"{self.root}/{below}".split("/") if part)

    def make(self, below: str) -> None:
        self.files.make(self.name(below))

    def paths(self, below: str) -> list[Path]:
        return self.files.hierarchy.paths(self.name(below))

    def exists(self, below: str) -> bool:
        return any(path.exists() for path in self.paths(below))

    def read(self, controller: str, below: str, v1: str, v2: str) -> str:
        file = self.files.hierarchy.file(controller, self.name(below), v2 if self.files.hierarchy.unified else v1)
        assert file is not None
        return file.read_text().split()[0]

    def memory(self, below: str) -> str:
        return self.read("memory", below, "memory.limit_in_bytes", "memory.max")

    def pids(self, below: str) -> str:
        return self.read("pids", below, "pids.max", "pids.max")

    def close(self) -> None:
        self.files.remove((self.root,))


@pytest.fixture
def kernel():
    found = Kernel(f"nodeagent-test-{uuid.uuid4().hex[:8]}")
    yield found
    found.close()


def make_agent(tmp_path, kernel, **config):
    context = make_context(tmp_path, config=make_config(cgroup_root=f"/{kernel.root}", **config))
    context.cgroups = load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)
    return context, context.cgroups


@pytest.mark.row("config.cgroupsPerQOS", "config.cgroupDriver", "config.cgroupRoot", "config.podPidsLimit")
async def test_cgroup_of_a_pod_is_created_listed_and_removed(tmp_path, kernel):
    _, manager = make_agent(tmp_path, kernel, pod_pids_limit=77)
    pod = make_pod(uid=str(uuid.uuid4()), containers=[make_container(resources=FULL)])
    path = f"kubepods/pod{pod.uid}"

    await manager.start()
    await manager.ensure_pod(pod)

    assert manager.parent_of(pod) == f"/{kernel.root}/{path}"
    assert all(each.is_dir() for each in kernel.paths(path))
    assert kernel.memory(path) == str(64 * MI)
    assert kernel.read("cpu", path, "cpu.cfs_quota_us", "cpu.max") == "50000"
    assert kernel.pids(path) == "77"
    assert await make_agent(tmp_path, kernel)[1].pods() == [pod.uid]

    await manager.remove_pod(pod.uid)
    await manager.remove_pod(pod.uid)
    assert await manager.pods() == []
    assert not kernel.exists(path)


@pytest.mark.row(
    "config.enforceNodeAllocatable",
    "config.systemReserved",
    "config.platformReserved",
    "config.systemReservedCgroup",
    "config.platformReservedCgroup",
)
async def test_node_allocatable_is_enforced(tmp_path, kernel):
    config = {
        "enforce_node_allocatable": ("pods", "system-reserved", "platform-reserved"),
        "system_reserved": {"cpu": "250m", "memory": "256Mi"},
        "platform_reserved": {"cpu": "500m", "memory": "512Mi"},
        "system_reserved_cgroup": f"/{kernel.root}/system",
        "platform_reserved_cgroup": f"/{kernel.root}/platform",
    }
    _, manager = make_agent(tmp_path, kernel, **config)
    with pytest.raises(ConfigError, match="systemReservedCgroup"):
        await manager.start()

    kernel.make("system")
    kernel.make("platform")
    context, manager = make_agent(tmp_path, kernel, **config)
    await manager.start()

    assert [kernel.memory(each) for each in ("system", "platform")] == [str(256 * MI), str(512 * MI)]
    assert kernel.read("cpu", "system", "cpu.shares", "cpu.weight") in ("256", "10")
    assert int(kernel.memory("kubepods")) == (read_machine().memory - 768 * MI) // 4096 * 4096
    assert kernel.pids("kubepods") == str(read_machine().pids)
    assert len(context.recorder.of("NodeAllocatableEnforced")) == 3


@pytest.mark.row("config.qosReserved")
async def test_qos_reserved_memory_limits_lower_classes(tmp_path, kernel):
    context, manager = make_agent(tmp_path, kernel, qos_reserved={"memory": "50%"}, feature_gates={"QOSReserved": True})
    amounts = {"cpu": "1", "memory": "1Gi"}
    context.pods.add(make_pod(containers=[make_container(resources={"limits": amounts, "requests": amounts})]))
    await manager.start()

    expected = read_machine().memory - 512 * MI
    assert [kernel.memory(f"kubepods/{each}") for each in ("burstable", "besteffort")] == [str(expected)] * 2


async def test_pods_of_another_agent_are_not_listed(tmp_path, kernel):
    pod = make_pod(uid="theirs", containers=[make_container(resources=FULL)])
    (_, theirs), (_, ours) = make_agent(tmp_path / "theirs", kernel), make_agent(tmp_path / "ours", kernel)
    await theirs.ensure_pod(pod)
    assert await ours.pods() == []
    await theirs.remove_pod("theirs")


async def test_restarted_agent_adopts_a_running_pod(tmp_path, kernel):
    pod = make_pod(uid="running", containers=[make_container(resources=FULL)])
    _, manager = make_agent(tmp_path, kernel)
    await manager.start()
    await manager.ensure_pod(pod)
    kernel.make("kubepods/podrunning/container")
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    for path in kernel.paths("kubepods/podrunning/container"):
        (path / "cgroup.procs").write_text(str(process.pid))

    _, later = make_agent(tmp_path, kernel, pod_pids_limit=5)
    await later.start()
    await later.ensure_pod(pod)

    assert kernel.pids("kubepods/podrunning") == "5"
    assert process.returncode is None
    await later.remove_pod("running")
    assert await asyncio.wait_for(process.wait(), 10) == -9


async def test_remaining_processes_are_killed_before_removal(tmp_path, kernel):
    _, manager = make_agent(tmp_path, kernel)
    await manager.ensure_pod(make_pod(uid="leftover"))
    kernel.make("kubepods/besteffort/podleftover/container")
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    for path in kernel.paths("kubepods/besteffort/podleftover/container"):
        (path / "cgroup.procs").write_text(str(process.pid))

    await make_agent(tmp_path, kernel)[1].remove_pod("leftover")

    assert await asyncio.wait_for(process.wait(), 10) == -9
    assert not kernel.exists("kubepods/besteffort/podleftover")


# A cgroup of the test replaces the root, because the processes of the host must not be moved.
MOVER = """
import sys
from pathlib import Path
from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import find_hierarchy
from nodeagent_plugins.cgroups.system_cgroups import SystemCgroups

root = sys.argv[1]
files = CgroupFiles(find_hierarchy(Path("/proc/self/mountinfo").read_text()), "test")
cgroups = SystemCgroups(files, None, agent=(root, "agent"), system=(root, "system"), outside=(root, "outside"))
cgroups.keep()
cgroups.keep()
print(Path("/proc/self/cgroup").read_text())
"""


@pytest.mark.row("config.nodeagentCgroups", "config.systemCgroups")
async def test_agent_and_system_processes_are_moved(kernel):
    kernel.make("outside")
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    try:
        for path in kernel.paths("outside"):
            (path / "cgroup.procs").write_text(str(process.pid))
        mover = await asyncio.create_subprocess_exec(
            sys.executable, "-c", MOVER, kernel.root, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(mover.communicate(), 30)
        where = Path(f"/proc/{process.pid}/cgroup").read_text()
    finally:
        process.kill()
        await process.wait()

    roots = len(kernel.files.hierarchy.limiting_roots)
    assert output.decode().count(f":/{kernel.root}/agent\n") == roots
    assert where.count(f":/{kernel.root}/system\n") == roots


async def test_cgroup_v2_operations(tmp_path):
    """Test version 2, which the kernel offers next to version 1 with the remaining controllers."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    mount = next(Path(line.split()[4]) for line in lines if " - cgroup2 " in line)
    files = CgroupFiles(Hierarchy(True, {"": mount}), str(tmp_path))
    root = f"nodeagent-test-{uuid.uuid4().hex[:8]}"
    pod = (root, "kubepods", "podleft")
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    try:
        files.make(pod, CgroupLimits(cpu_shares=512, pids=5, hugepages={"2MB": 4 * MI}), mark=True)
        files.make((*pod, "container"))
        (mount.joinpath(*pod, "container") / "cgroup.procs").write_text(str(process.pid))

        assert (mount.joinpath(*pod) / "hugetlb.2MB.max").read_text() == f"{4 * MI}\n"
        assert files.children(pod[:-1]) == ["podleft"]
        files.remove(pod)
        assert await asyncio.wait_for(process.wait(), 10) == -9
        assert not files.exists(pod)
    finally:
        files.remove((root,))
