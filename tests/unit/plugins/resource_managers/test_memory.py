"""Tests for memory by NUMA node."""

from __future__ import annotations

import copy

import pytest

from nodeagent.contracts.topology import Hint
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.resource_managers.errors import AllocationFailed, StaleState
from nodeagent_plugins.resource_managers.memory import MemoryAssignments
from nodeagent_plugins.resource_managers.topology import read_topology

from .conftest import GI, guaranteed, write_host

ANYWHERE = Hint()


@pytest.fixture
def memory(topology):
    """Four nodes of 4 GiB; node 0 reserves 1 GiB."""
    return MemoryAssignments(topology, {0: {"memory": GI}})


def give(memory, pod, hint=ANYWHERE):
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        memory.allocate(pod, container, hint)
    return {name: memory.nodes_of(pod.uid, name) for name in memory.entries.get(pod.uid, {})}


def free(memory):
    return [state.tables["memory"].free / GI for state in memory.nodes.values()]


@pytest.mark.row("config.memoryManagerPolicy")
def test_memory_is_taken_from_the_fewest_nodes_and_released(memory):
    pod = guaranteed(main={"memory": "3.5Gi"})
    assert give(memory, pod) == {"main": {1}}
    assert free(memory) == [3, 0.5, 4, 4]
    assert memory.release(pod.uid)
    assert free(memory) == [3, 4, 4, 4]
    assert not memory.release(pod.uid)


@pytest.mark.row("type.MemoryReservation.limits", "type.MemoryReservation.numaNode")
def test_reserved_memory_is_not_assigned(memory):
    assert free(memory) == [3, 4, 4, 4]
    assert give(memory, guaranteed(main={"memory": "4Gi"}), Hint(frozenset({0}))) == {"main": {0, 1}}


def test_other_pods_are_not_pinned(memory):
    assert give(memory, make_pod()) == {}
    assert memory.pod_hints(make_pod()) == {}


def test_node_is_used_either_separately_or_in_one_group(memory):
    assert give(memory, guaranteed("wide", main={"memory": "6Gi"})) == {"main": {0, 1}}
    assert give(memory, guaranteed("narrow", main={"memory": "1Gi"})) == {"main": {2}}
    with pytest.raises(AllocationFailed, match="to extend the current topology hint"):
        give(memory, guaranteed("other", main={"memory": "5Gi"}), Hint(frozenset({3})))
    assert memory.nodes[2].cells == [2]


def test_group_is_dissolved_with_its_last_container(memory):
    pod = guaranteed(main={"memory": "6Gi"})
    give(memory, pod)
    assert memory.nodes[0].cells == memory.nodes[1].cells == [0, 1]
    memory.release(pod.uid)
    assert [state.cells for state in memory.nodes.values()] == [[0], [1], [2], [3]]


def test_excessive_request_is_rejected(memory):
    with pytest.raises(AllocationFailed, match="with enough memory"):
        give(memory, guaranteed(main={"memory": "16Gi"}))
    with pytest.raises(AllocationFailed, match="with enough memory"):
        give(memory, guaranteed(main={"hugepages-1Gi": "1Gi"}))
    assert free(memory) == [3, 4, 4, 4]


def test_huge_pages_are_pinned_separately_from_memory(tmp_path):
    memory = MemoryAssignments(read_topology(write_host(tmp_path, huge_2mi=512)), {})
    assert free(memory) == [3, 3, 3, 3]
    give(memory, guaranteed(main={"hugepages-2Mi": "1Gi"}))
    assert [state.tables["hugepages-2Mi"].free for state in memory.nodes.values()] == [0, GI, GI, GI]
    assert give(memory, guaranteed("b", main={"hugepages-2Mi": "2Mi"})) == {"main": {1}}


def test_memory_of_init_containers_is_reused_and_that_of_sidecars_is_not(memory):
    pod = guaranteed(
        init=[("setup", {"memory": "3Gi"}, False), ("proxy", {"memory": "1Gi"}, True)], main={"memory": "1Gi"}
    )
    give(memory, pod)
    assert free(memory) == [0, 4, 4, 4]
    memory.release(pod.uid)
    assert free(memory) == [3, 4, 4, 4]


def test_hints_after_a_restart_are_the_current_nodes(memory):
    pod = guaranteed(main={"memory": "2Gi"})
    give(memory, pod, Hint(frozenset({3})))
    held = {"memory": [Hint(frozenset({3}), preferred=True)]}
    assert memory.container_hints(pod, pod.spec.containers[0]) == memory.pod_hints(pod) == held


def test_pod_hint_covers_concurrently_running_containers(memory):
    pod = guaranteed(init=[("proxy", {"memory": "2Gi"}, True)], main={"memory": "2Gi"}, more={"memory": "1Gi"})
    hints = memory.pod_hints(pod)["memory"]
    assert all(len(hint.nodes) > 1 for hint in hints)


# --- state ----------------------------------------------------------------------------------------------------


def test_state_has_the_upstream_format_and_is_restored(memory, topology):
    pod = guaranteed(main={"memory": "2Gi"})
    give(memory, pod)
    state = memory.to_state()
    assert state["machineState"]["0"] == {
        "numberOfAssignments": 1,
        "memoryMap": {
            "hugepages-2Mi": {"total": 0, "systemReserved": 0, "allocatable": 0, "reserved": 0, "free": 0},
            "memory": {
                "total": 4 * GI,
                "systemReserved": GI,
                "allocatable": 3 * GI,
                "reserved": 2 * GI,
                "free": GI,
            },
        },
        "cells": [0],
    }
    assert state["entries"] == {pod.uid: {"main": [{"numaAffinity": [0], "type": "memory", "size": 2 * GI}]}}
    again = MemoryAssignments(topology, {0: {"memory": GI}})
    again.restore(state)
    assert again.to_state() == state


def test_group_that_lost_a_container_is_restored(memory, topology):
    first, second = guaranteed("a", main={"memory": "6Gi"}), guaranteed("b", main={"memory": "1Gi"})
    give(memory, first)
    give(memory, second, Hint(frozenset({0, 1})))
    memory.release(first.uid)
    MemoryAssignments(topology, {0: {"memory": GI}}).restore(memory.to_state())


def test_state_of_another_host_or_reservation_is_rejected(memory, topology):
    pod = guaranteed(main={"memory": "2Gi"})
    give(memory, pod)
    state = memory.to_state()
    with pytest.raises(StaleState, match="expected machine state is different"):
        MemoryAssignments(topology, {1: {"memory": GI}}).restore(state)
    foreign = copy.deepcopy(state)
    foreign["entries"][pod.uid]["main"][0]["numaAffinity"] = [7]
    with pytest.raises(StaleState, match="do not match the host"):
        memory.restore(foreign)


def test_pod_with_pod_level_resources_is_not_pinned(memory):
    amounts = {"cpu": "2", "memory": "1Gi"}
    container = make_container(resources={"requests": amounts, "limits": amounts})
    pod = make_pod(containers=[container], resources={"requests": amounts, "limits": amounts})

    assert give(memory, pod) == {}
    assert memory.pod_hints(pod) == memory.container_hints(pod, container) == {}


def test_blocks_of_init_containers_are_reduced_by_resource(tmp_path):
    memory = MemoryAssignments(read_topology(write_host(tmp_path, huge_2mi=1024)), {0: {"memory": GI}})
    amounts = {"memory": "1Gi", "hugepages-2Mi": "512Mi"}
    pod = guaranteed(init=[("setup", amounts, False)], main={"memory": "1Gi", "hugepages-2Mi": "256Mi"})

    give(memory, pod)

    entries = memory.to_state()["entries"][pod.uid]
    sizes = {name: {each["type"]: each["size"] for each in blocks} for name, blocks in entries.items()}
    assert sizes == {
        "setup": {"memory": 0, "hugepages-2Mi": GI // 4},
        "main": {"memory": GI, "hugepages-2Mi": GI // 4},
    }


def test_memory_of_an_init_container_is_reused_by_one_container(memory):
    pod = guaranteed(init=[("setup", {"memory": "2Gi"}, False)], main={"memory": "2Gi"}, more={"memory": "2Gi"})

    assert give(memory, pod) == {"setup": {0}, "main": {0}, "more": {1}}
    assert free(memory) == [1, 2, 4, 4]
