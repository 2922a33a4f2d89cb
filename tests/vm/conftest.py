"""Fixtures: the virtual node that all tests share; ``make vm-test`` builds it and sets its directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.machine import Measures, Stopwatch, VirtualNode

VARIABLE = "NODEAGENT_VM"

# These tests need minutes, a gigabyte of disk and an emulator, so they are opt-in.
collect_ignore_glob = [] if os.environ.get(VARIABLE) else ["test_*.py"]

HUGE_PAGES = 8
"""Number of huge pages of 2 MiB."""

# Appended to the installed configuration, as by an operator.
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
        node.run("ctr --namespace k8s.io images import /var/lib/images/images.tar")
        node.run("cat >> /etc/nodeagent/config.yaml", text=CONFIGURATION)
        node.run(f"sysctl vm.nr_hugepages={HUGE_PAGES}")
        for unit in ("nodeagent", "nodeagent-apiserver"):
            node.run(f"mkdir /etc/systemd/system/{unit}.service.d")
            node.write(f"/etc/systemd/system/{unit}.service.d/slow.conf", SLOW)
        node.run("systemctl daemon-reload")
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
