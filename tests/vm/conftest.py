"""Fixtures: the virtual node that all tests share; ``make vm-test`` builds it and sets its directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.programs import wait_until
from tests.vm.machine import Measures, Stopwatch, VirtualNode

VARIABLE = "NODEAGENT_VM"

# These tests need minutes, a gigabyte of disk and an emulator, so they are opt-in.
collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]

HUGE_PAGES = 8
"""Number of huge pages of 2 MiB."""

# Replaces values of the installed configuration, as by an operator.
CONFIGURATION = """\
cgroupDriver: systemd
podPidsLimit: 100
evictionHard: {memory.available: 400Mi}
evictionPressureTransitionPeriod: 10s
shutdownGracePeriod: 90s
shutdownGracePeriodCriticalPods: 30s
enableSystemLogHandler: true
enableSystemLogQuery: true
qosReserved: {memory: 50%}
featureGates: {NodeLogQuery: true, MemoryQoS: true, QOSReserved: true}
"""


# Of the virtual node with two NUMA nodes; the memory of the first one covers what is reserved.
NUMA_CONFIGURATION = """\
cgroupDriver: systemd
systemReserved: {memory: 100Mi}
evictionHard: {memory.available: 100Mi}
reservedSystemCPUs: "0"
reservedMemory: [{numaNode: 0, limits: {memory: 200Mi}}]
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
"""


# With many processes on its host, the emulated node starts Python ten to fifty times slower than a real one.
SLOW = "[Service]\nTimeoutStartSec=15min\n"


@pytest.fixture(scope="session")
def results() -> Path:
    """Directory for measurements, console output and journal."""
    directory = Path(os.environ[VARIABLE]) / "results"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    return directory.resolve()


@pytest.fixture(scope="session")
def measures(results: Path) -> Measures:
    return Measures(results / "measures.json")


@pytest.fixture(scope="session")
def booted(results: Path, measures: Measures) -> Iterator[VirtualNode]:
    """Virtual node with images for pods, before the agent's first start."""
    node = VirtualNode(Path(os.environ[VARIABLE]).resolve(), results)
    try:
        watch = Stopwatch()
        node.start()
        measures.note("boot until ssh answers, s", watch.seconds())
        node.run("systemctl is-system-running --wait", check=False, seconds=300)
        prepare(node, CONFIGURATION)
        node.run(f"sysctl vm.nr_hugepages={HUGE_PAGES}")
        yield node
    finally:
        node.close()


@pytest.fixture(scope="session")
def node(booted: VirtualNode, measures: Measures) -> VirtualNode:
    """Virtual node after ``systemctl enable --now nodeagent``."""
    watch = Stopwatch()
    booted.run("systemctl enable --now nodeagent", seconds=1200)
    measures.note("systemctl enable --now nodeagent, s", watch.seconds())
    return booted


@pytest.fixture(scope="session")
def numa_node(results: Path) -> Iterator[VirtualNode]:
    """Virtual node with two NUMA nodes."""
    directory = results / "numa"
    directory.mkdir()
    node = VirtualNode(Path(os.environ[VARIABLE]).resolve(), directory, numa=True)
    try:
        node.start()
        prepare(node, NUMA_CONFIGURATION)
        node.run("systemctl enable --now nodeagent", seconds=1800)
        wait_until(lambda: node.condition("Ready") == "True", "node is Ready", 600, 1.0)
        yield node
    finally:
        node.close()


def prepare(node: VirtualNode, configuration: str) -> None:
    """Import the images for pods, and change the agent's configuration."""
    node.run("ctr --namespace k8s.io images import /var/lib/images/images.tar", seconds=600)
    keys = [line.partition(":")[0] for line in configuration.splitlines()]
    node.run(f"sed -i -E '/^({'|'.join(keys)}):/d' /etc/nodeagent/config.yaml")
    node.run("cat >> /etc/nodeagent/config.yaml", text=configuration)
    for unit in ("nodeagent", "nodeagent-apiserver"):
        node.run(f"mkdir -p /etc/systemd/system/{unit}.service.d")
        node.write(f"/etc/systemd/system/{unit}.service.d/slow.conf", SLOW)
    node.run("systemctl daemon-reload", seconds=300)
