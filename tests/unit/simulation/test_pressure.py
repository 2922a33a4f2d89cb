"""Tests for the simulated memory of a node: the agent's readers and statistics return the same amounts."""

import asyncio
from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from nodeagent.model.eviction_thresholds import Signal
from nodeagent.simulation.disks import SimulatedDisks
from nodeagent.simulation.pressure import MEMORY_BYTES, MIB, SimulatedMemory, SimulatedStats
from nodeagent_plugins.eviction.memory import NodeMemory
from nodeagent_plugins.eviction.signals import observe

from .host import Host


@pytest.fixture
def node(tmp_path):
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    host = Host(manifests)
    memory = SimulatedMemory(1, host.runtime)
    stats = SimulatedStats(memory, SimulatedDisks(1, host.runtime, host.clock, tmp_path), host.runtime, host.clock)
    with ExitStack() as stack:
        for owner, name, value in memory.files().replacements():
            stack.enter_context(patch.object(owner, name, value))
        yield SimpleNamespace(host=host, memory=memory, stats=stats)


def test_statistics_and_files_of_the_kernel_agree(node):
    node.host.start(node.host.container(node.host.sandbox("a")))
    node.memory.leave(600 * MIB)

    observed = observe(asyncio.run(node.stats.node()))[Signal.MEMORY]
    reading = NodeMemory().read()

    assert (observed.available, observed.capacity) == (600 * MIB, MEMORY_BYTES)
    assert (reading.available, reading.capacity) == (600 * MIB, MEMORY_BYTES)


def test_end_of_a_container_releases_its_memory(node):
    container = node.host.start(node.host.container(node.host.sandbox("a")))
    used = node.memory.usage(container)
    node.memory.leave(100 * MIB)
    node.memory.forget()

    node.host.end(container)

    assert NodeMemory().read().available == 100 * MIB + used


def test_end_of_the_pressure_releases_the_memory_of_other_processes(node):
    before = node.memory.available
    node.memory.leave(100 * MIB)

    node.memory.recover()

    assert node.memory.available == before


def test_usage_of_a_pod_is_that_of_its_running_containers(node):
    sandbox = node.host.sandbox("a")
    containers = [node.host.start(node.host.container(sandbox, name)) for name in ("web", "side")]
    node.host.end(node.host.start(node.host.container(sandbox, "init")))
    node.host.sandbox("empty")
    node.host.sandbox("ended", ready=False)

    usage = {pod.uid: pod.memory.working_set_bytes for pod in asyncio.run(node.stats.memory())}

    assert usage == {"a": sum(map(node.memory.usage, containers)), "empty": 0}
    assert usage.keys() == node.stats.sample.keys() == {pod.uid for pod in asyncio.run(node.stats.pods())}
