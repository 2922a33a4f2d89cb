"""Tests for exclusive CPUs."""

from __future__ import annotations

import pytest

from nodeagent.contracts.topology import Hint
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.resource_managers.cpu import CpuAssignments, CpuOptions, exclusive_cpus
from nodeagent_plugins.resource_managers.errors import AdmissionRejected, AllocationFailed, StaleState

from .conftest import guaranteed

ANYWHERE = Hint()


@pytest.fixture
def cpus(topology):
    return CpuAssignments(topology, frozenset({0}))


def give(cpus, pod, hint=ANYWHERE):
    for container in [*(pod.spec.init_containers or ()), *pod.spec.containers]:
        cpus.allocate(pod, container, hint)
    return cpus.entries.get(pod.uid, {})


@pytest.mark.parametrize(
    ("requests", "limits", "count"),
    [
        ({"cpu": "2", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, 2),
        ({"cpu": "2000m", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, 2),
        (None, {"cpu": "2", "memory": "1Gi"}, 2),
        ({"cpu": "1500m", "memory": "1Gi"}, {"cpu": "1500m", "memory": "1Gi"}, 0),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, 0),
        ({"cpu": "2"}, {"cpu": "2"}, 0),
        (None, None, 0),
    ],
)
def test_only_integer_requests_of_guaranteed_pods_are_exclusive(requests, limits, count):
    pod = make_pod(containers=[make_container(resources={"requests": requests, "limits": limits})])
    assert exclusive_cpus(pod, pod.spec.containers[0]) == count


@pytest.mark.row("config.cpuManagerPolicy")
def test_assigned_cpus_leave_the_shared_pool_until_released(cpus, topology):
    pod = guaranteed(main={"cpu": "2"}, side={"cpu": "1500m"})
    assert give(cpus, pod) == {"main": {1, 9}}
    assert cpus.shared == topology.all - {1, 9}
    assert cpus.release(pod.uid)
    assert cpus.shared == topology.all
    assert not cpus.release(pod.uid)


@pytest.mark.row("config.reservedSystemCPUs")
def test_reserved_cpus_are_never_exclusive(cpus):
    with pytest.raises(AllocationFailed, match="requested=16, available=15"):
        give(cpus, guaranteed(main={"cpu": "16"}))
    assert give(cpus, guaranteed(main={"cpu": "15"}))
    assert cpus.shared == {0}


def test_assigned_cpus_are_not_assigned_again(cpus):
    pod = guaranteed(main={"cpu": "2"})
    assert cpus.allocate(pod, pod.spec.containers[0], ANYWHERE)
    assert not cpus.allocate(pod, pod.spec.containers[0], ANYWHERE)


def test_cpus_of_init_containers_are_reused_and_those_of_sidecars_are_not(cpus):
    pod = guaranteed(
        init=[("setup", {"cpu": "4"}, False), ("proxy", {"cpu": "1"}, True)], main={"cpu": "2"}, more={"cpu": "1"}
    )
    given = give(cpus, pod)
    assert given["main"] | given["more"] | given["proxy"] <= given["setup"]
    assert not (given["main"] | given["more"]) & given["proxy"]
    assert not given["main"] & given["more"]


def test_hinted_nodes_are_used_first(cpus, topology):
    assert give(cpus, guaranteed(main={"cpu": "3"}), Hint(frozenset({3})))["main"] < topology.within("node", [3])
    spilling = give(cpus, guaranteed("more", main={"cpu": "6"}), Hint(frozenset({2})))["main"]
    assert topology.within("node", [2]) < spilling


# --- options --------------------------------------------------------------------------------------------------


@pytest.mark.row("config.cpuManagerPolicyOptions")
@pytest.mark.parametrize(
    ("count", "message"),
    [
        ("3", "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"),
        (
            "16",
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, "
            "CPUs per core = 2",
        ),
    ],
)
def test_full_pcpus_only_rejects_partial_cores(topology, count, message):
    cpus = CpuAssignments(topology, frozenset({0}), CpuOptions(full_cores=True))
    with pytest.raises(AdmissionRejected) as rejected:
        give(cpus, guaranteed(main={"cpu": count}))
    assert (rejected.value.reason, str(rejected.value)) == ("SMTAlignmentError", message)


@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_distribution_spreads_over_nodes(topology):
    cpus = CpuAssignments(topology, frozenset({0}), CpuOptions(distribute=True))
    given = give(cpus, guaranteed(main={"cpu": "6"}))["main"]
    assert sorted(len(given & topology.within("node", [node])) for node in range(4)) == [0, 0, 3, 3]


@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_alignment_by_socket_prefers_full_sockets(topology):
    pod = guaranteed(main={"cpu": "5"})
    by_socket = CpuAssignments(topology, frozenset({0}), CpuOptions(by_socket=True))
    preferred = preferred_masks(by_socket, guaranteed(main={"cpu": "3"}))
    assert {2, 3} in preferred
    assert {1, 2} not in preferred
    assert {2, 3} not in preferred_masks(CpuAssignments(topology, frozenset({0})), guaranteed(main={"cpu": "3"}))
    assert give(by_socket, pod, Hint(frozenset({2})))["main"] < topology.within("socket", [1])


@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_strictly_reserved_cpus_are_not_shared(topology):
    strict = CpuAssignments(topology, frozenset({0}), CpuOptions(strict=True))
    assert strict.shared == topology.all - {0}
    pod = guaranteed(main={"cpu": "2"})
    give(strict, pod)
    again = CpuAssignments(topology, frozenset({0}), CpuOptions(strict=True))
    again.restore(strict.to_state())
    again.release(pod.uid)
    assert again.shared == topology.all - {0}


@pytest.mark.parametrize(
    ("options", "shared", "error"),
    [
        (CpuOptions(strict=True), "0-15", 'some of strictly reserved cpus: "0" are present in defaultCpuSet: "0-15"'),
        (CpuOptions(strict=True), "1-14", 'available CPUs "1-15" doesn\'t match with CPUs in state "1-14"'),
        (CpuOptions(), "1-15", 'not all reserved cpus: "0" are present'),
    ],
)
def test_state_of_other_strictness_is_rejected(topology, options, shared, error):
    with pytest.raises(StaleState, match=error):
        CpuAssignments(topology, frozenset({0}), options).restore({"defaultCpuSet": shared})


# --- hints ----------------------------------------------------------------------------------------------------


def preferred_masks(cpus, pod):
    hints = cpus.container_hints(pod, pod.spec.containers[0])["cpu"]
    return [hint.nodes for hint in hints if hint.preferred]


def test_hints_list_nodes_with_enough_cpus_and_prefer_the_smallest_set(cpus):
    assert preferred_masks(cpus, guaranteed(main={"cpu": "4"})) == [{1}, {2}, {3}]
    assert preferred_masks(cpus, guaranteed(main={"cpu": "5"}))[0] == {0, 1}
    give(cpus, guaranteed("other", main={"cpu": "8"}))
    assert {0} in preferred_masks(cpus, guaranteed(main={"cpu": "3"}))


def test_shared_container_has_no_hints(cpus):
    pod = guaranteed(main={"cpu": "1500m"})
    assert cpus.container_hints(pod, pod.spec.containers[0]) == {}
    assert cpus.pod_hints(pod) == {}


def test_hints_after_a_restart_are_the_current_nodes(cpus):
    pod = guaranteed(main={"cpu": "4"})
    give(cpus, pod, Hint(frozenset({2})))
    assert preferred_masks(cpus, pod) == [{2}]
    assert [hint.nodes for hint in cpus.pod_hints(pod)["cpu"] if hint.preferred] == [{2}]
    larger = guaranteed(main={"cpu": "5"})
    assert cpus.container_hints(larger, larger.spec.containers[0]) == {"cpu": []}
    assert cpus.pod_hints(larger) == {"cpu": []}


def test_pod_hint_covers_concurrently_running_containers(cpus):
    pod = guaranteed(init=[("setup", {"cpu": "5"}, False)], main={"cpu": "2"}, more={"cpu": "2"})
    assert all(len(hint.nodes) > 1 for hint in cpus.pod_hints(pod)["cpu"])


# --- state ----------------------------------------------------------------------------------------------------


def test_state_has_the_upstream_format_and_is_restored(cpus, topology):
    pod = guaranteed(main={"cpu": "2"})
    give(cpus, pod)
    state = cpus.to_state()
    assert state == {"defaultCpuSet": "0,2-8,10-15", "entries": {pod.uid: {"main": "1,9"}}}
    again = CpuAssignments(topology, frozenset({0}))
    again.restore(state)
    assert (again.shared, again.entries) == (cpus.shared, cpus.entries)


@pytest.mark.parametrize(
    ("shared", "held", "why"),
    [
        ("", {}, "default cpuset cannot be empty"),
        ("1-15", {"c": "0"}, 'not all reserved cpus: "0" are present in defaultCpuSet: "1-15"'),
        ("0-15", {"c": "3"}, 'cpuset: "3" overlaps with default cpuset "0-15"'),
        ("0-7", {}, 'current set of available CPUs "0-15" doesn\'t match with CPUs in state "0-7"'),
        ("0-15", {"c": "x"}, "invalid CPU lists"),
    ],
)
def test_state_that_does_not_match_is_rejected(cpus, shared, held, why):
    with pytest.raises(StaleState, match=why.replace("(", r"\(")):
        cpus.restore({"defaultCpuSet": shared, "entries": {"uid": held}})


def test_pod_with_pod_level_resources_has_no_exclusive_cpus(cpus):
    amounts = {"cpu": "2", "memory": "1Gi"}
    container = make_container(resources={"requests": amounts, "limits": amounts})
    pod = make_pod(containers=[container], resources={"requests": amounts, "limits": amounts})

    assert give(cpus, pod) == {}
    assert cpus.pod_hints(pod) == {}
