"""Tests for the cgroups of pods, the system and the agent, on the host's kernel."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.quantity import parse_quantity
from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import find_hierarchy
from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent, simple_pod, wait_until
from tests.integration.reference import new_api_server

MI = 1024**2


class Cgroups:
    """Cgroups below a cgroup of this module."""

    def __init__(self, owner: Path) -> None:
        self.root = f"nodeagent-test-{uuid.uuid4().hex[:8]}"
        hierarchy = find_hierarchy(Path("/proc/self/mountinfo").read_text())
        assert hierarchy is not None
        self.files = CgroupFiles(hierarchy, str(owner))

    def name(self, below: str) -> tuple[str, ...]:
        return (self.root, *filter(None, below.split("/")))

    def read(self, controller: str, below: str, file: str, unified: str = "") -> str:
        path = self.files.hierarchy.file(
            controller, self.name(below), unified if self.files.hierarchy.unified and unified else file
        )
        assert path is not None
        return path.read_text().split()[0]

    def memory(self, below: str) -> int:
        return int(self.read("memory", below, "memory.limit_in_bytes", "memory.max"))

    def exists(self, below: str) -> bool:
        return any(cgroup_directory.is_dir() for cgroup_directory in self.files.hierarchy.paths(self.name(below)))

    def traces(self, below: str) -> list[Path]:
        """Return the remaining directories of a cgroup in all hierarchies."""
        return list(Path("/sys/fs/cgroup").glob("/".join(("*", *self.name(below)))))

    def close(self) -> None:
        self.files.remove((self.root,))


@pytest.fixture(scope="module")
def cgroups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cgroups]:
    made = Cgroups(tmp_path_factory.getbasetemp() / "held" / "root")
    for below in ("", "system", "platform"):
        made.files.make(made.name(below))
    yield made
    made.close()


@pytest.fixture(scope="module")
def config(cgroups: Cgroups) -> dict[str, Any]:
    return {
        "cgroupRoot": f"/{cgroups.root}",
        "podPidsLimit": 40,
        "nodeagentCgroups": f"/{cgroups.root}/agent",
        "systemReserved": {"cpu": "100m", "memory": "256Mi"},
        "platformReserved": {"cpu": "200m", "memory": "128Mi", "ephemeral-storage": "1Gi"},
        "enforceNodeAllocatable": ["pods", "system-reserved", "platform-reserved"],
        "systemReservedCgroup": f"/{cgroups.root}/system",
        "platformReservedCgroup": f"/{cgroups.root}/platform",
        "evictionHard": {"memory.available": "100Mi"},
        "memorySwap": {"swapBehavior": "LimitedSwap"},
        "qosReserved": {"memory": "100%"},
        "featureGates": {"NodeSwap": True, "QOSReserved": True, "NodeAgentCgroupDriverFromCRI": True},
    }


@pytest.fixture(scope="module")
def node(
    containerd: Containerd, tmp_path_factory: pytest.TempPathFactory, cgroups: Cgroups, config: dict[str, Any]
) -> Iterator[Node]:
    directory = tmp_path_factory.getbasetemp() / "held"
    directory.mkdir()
    api = new_api_server(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    try:
        api.start()
        agent.start(**config)
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()
        for leftover in (
            cgroup_directory
            for cgroup_directory in cgroups.files.hierarchy.paths(cgroups.name("agent"))
            if cgroup_directory.is_dir()
        ):
            wait_until(
                lambda cgroup_directory=leftover: not (cgroup_directory / "cgroup.procs").read_text(),
                "the agent has exited",
            )


def amounts_pod(name: str, command: str = "exec sleep 1000", **amounts: str) -> dict[str, Any]:
    return simple_pod(name, command, nodeName="node-1", container={"resources": {"limits": amounts}})


def reported(node: Node) -> Any:
    """Wait for the node's status and return it."""

    def there() -> Any:
        found = node.api.get("/api/v1/nodes/node-1")
        return found.get("status") if found["kind"] == "Node" else None

    return wait_until(there, "the node is there")


@pytest.mark.row("config.systemReserved", "config.platformReserved")
def test_node_reports_its_allocatable_resources(node: Node) -> None:
    status = reported(node)
    capacity, allocatable = ({k: parse_quantity(v) for k, v in status[s].items()} for s in ("capacity", "allocatable"))
    kept = {name: str(capacity[name] - allocatable[name]) for name in ("cpu", "memory", "ephemeral-storage")}
    assert kept == {"cpu": "300m", "memory": "484Mi", "ephemeral-storage": "1Gi"}


@pytest.mark.row(
    "config.enforceNodeAllocatable",
    "config.systemReserved",
    "config.platformReserved",
    "config.systemReservedCgroup",
    "config.platformReservedCgroup",
    "config.cgroupRoot",
)
def test_limits_of_pods_and_reserved_cgroups_are_enforced(node: Node, cgroups: Cgroups) -> None:
    notes = {
        "Updated Node Allocatable limit across pods",
        f"Updated limits on system reserved cgroup /{cgroups.root}/system",
        f"Updated limits on platform reserved cgroup /{cgroups.root}/platform",
    }
    wait_until(
        lambda: {e["note"] for e in node.api.events("node-1") if e["reason"] == "NodeAllocatableEnforced"} == notes,
        "events tell of it",
    )
    status = reported(node)
    assert cgroups.memory("kubepods") == parse_quantity(status["capacity"]["memory"]).value() - 384 * MI
    assert (cgroups.memory("system"), cgroups.memory("platform")) == (256 * MI, 128 * MI)


@pytest.mark.row("config.nodeagentCgroups")
def test_agent_is_in_its_cgroup(node: Node, cgroups: Cgroups) -> None:
    roots = len(cgroups.files.hierarchy.limiting_roots)

    def moved() -> bool:
        where = Path(f"/proc/{node.agent.pid}/cgroup").read_text()
        return where.count(f":/{cgroups.root}/agent\n") == roots

    wait_until(moved, "the agent is in its cgroup")


@pytest.mark.row(
    "config.cgroupsPerQOS",
    "config.cgroupDriver",
    "config.podPidsLimit",
    "config.memorySwap",
    "type.MemorySwapConfiguration.swapBehavior",
    "config.qosReserved",
)
def test_pod_limits_are_enforced_and_kept_by_a_restarted_agent(
    node: Node, cgroups: Cgroups, config: dict[str, Any]
) -> None:
    forks = "(i=0; while [ $i -lt 60 ]; do i=$((i+1)); sleep 1000 & done) 2>&1; exec sleep 1000"
    node.api.create_pod(amounts_pod("full", forks, cpu="500m", memory="64Mi"))
    node.api.create_pod(amounts_pod("half", memory="32Mi"))
    full, half = node.phase("full", "Running"), node.phase("half", "Running")
    in_full = f"kubepods/pod{full['metadata']['uid']}"
    in_half = f"kubepods/burstable/pod{half['metadata']['uid']}"
    container = full["status"]["containerStatuses"][0]["containerID"].partition("://")[2]

    assert cgroups.memory(in_full) == cgroups.memory(f"{in_full}/{container}") == 64 * MI
    assert cgroups.memory(in_half) == 32 * MI
    assert cgroups.read("cpu", in_full, "cpu.cfs_quota_us", "cpu.max") == "50000"
    if cgroups.files.hierarchy.unified:
        assert cgroups.read("memory", f"{in_full}/{container}", "", "memory.swap.max") == "0"
    else:
        assert cgroups.read("memory", f"{in_full}/{container}", "memory.memsw.limit_in_bytes") == str(64 * MI)
    wait_until(lambda: "fork" in node.log(full), "the limit of processes is met")
    assert cgroups.read("pids", in_full, "pids.max") == "40"
    assert cgroups.memory("kubepods/burstable") == cgroups.memory("kubepods") - 64 * MI
    assert cgroups.memory("kubepods/besteffort") == cgroups.memory("kubepods") - 96 * MI

    node.agent.stop()
    cgroups.files.make(cgroups.name("kubepods/besteffort/podleft"), mark=True)
    cgroups.files.make(cgroups.name("kubepods/besteffort/podleft/container"))
    node.agent.start(podPidsLimit=60)

    wait_until(lambda: cgroups.read("pids", in_full, "pids.max") == "60", "the running pod is adopted")
    wait_until(lambda: cgroups.memory("kubepods/besteffort") == cgroups.memory("kubepods") - 96 * MI, "and counted")
    wait_until(lambda: not cgroups.exists("kubepods/besteffort/podleft"), "what an earlier pod left is removed")
    now = node.api.pod("full")["status"]["containerStatuses"][0]
    assert (now["restartCount"], now["containerID"].partition("://")[2]) == (0, container)

    node.remove("full", "half")
    wait_until(lambda: not cgroups.traces(in_full) and not cgroups.traces(in_half), "their cgroups are removed")


@pytest.mark.row("config.enforceNodeAllocatable", "config.platformReservedCgroup")
def test_missing_reserved_cgroup_terminates_the_agent(
    containerd: Containerd, tmp_path: Path, config: dict[str, Any]
) -> None:
    agent = NodeAgent(tmp_path, containerd.endpoint)
    agent.begin(**{**config, "nodeagentCgroups": "", "platformReservedCgroup": "/not-there"})
    assert agent.process is not None
    assert agent.process.wait(30) == 2
    assert "platformReservedCgroup: '/not-there' must exist before the agent starts" in agent.tail()
