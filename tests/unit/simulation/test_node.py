"""Tests for the objects and observations of the simulated node, whose agent is not running."""

import asyncio
from types import SimpleNamespace

import pytest

from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.simulation.node import NAMESPACE, Node
from nodeagent.simulation.volume_driver import CLAIMS


@pytest.fixture
def loop():
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def node(loop, tmp_path):
    return Node(1, loop, tmp_path, {})


def test_only_claims_have_a_namespace(node):
    objects = {collection.rpartition("/")[2]: set(found) for collection, found in node.server.objects.items()}
    assert objects["persistentvolumeclaims"] == {(NAMESPACE, claim) for claim in CLAIMS}
    assert objects["persistentvolumes"] == {("", f"pv-{claim}") for claim in CLAIMS}


def test_volume_driver_observes_the_pods_with_running_containers(node):
    for number, (uid, running) in enumerate((("a", True), ("b", False))):
        container = SimpleNamespace(sandbox=SimpleNamespace(uid=uid), running=running)
        node.runtime.containers[str(number)] = container
    assert [node._is_running(uid) for uid in "abc"] == [True, False, False]


@pytest.mark.parametrize("has_pressure", [True, False])
def test_files_of_the_kernel_are_replaced_only_under_pressure(loop, tmp_path, has_pressure):
    node = Node(1, loop, tmp_path, {}, has_pressure=has_pressure)
    assert ("open" in {name for _, name, _ in node.replacements()}) is has_pressure


def test_crashed_agent_is_dropped_once(node, loop):
    node.crash()
    assert loop.dead == set()
    node.process = 3
    node.crash()
    node.crash()
    assert (loop.dead, node.process, node.agent) == ({3}, 0, None)
