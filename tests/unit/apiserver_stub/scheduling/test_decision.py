"""Tests for scheduling decisions: filters across nodes, and their messages."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.model import NodeInfo

from .cluster import NO_VICTIMS, NOT_HELPFUL, decided, fits, make_node, make_pod, make_state

ZONE = "topology.kubernetes.io/zone"
WEB = {"app": "web"}


def near(labels: dict[str, str], key: str = "kubernetes.io/hostname", **term: Any) -> dict[str, Any]:
    return {"podAffinity": _required(labels, key, term)}


def apart(labels: dict[str, str], key: str = "kubernetes.io/hostname", **term: Any) -> dict[str, Any]:
    return {"podAntiAffinity": _required(labels, key, term)}


def _required(labels: dict[str, str], key: str, term: dict[str, Any]) -> dict[str, Any]:
    full = {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **term}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [full]}


def spread(**constraint: Any) -> list[dict[str, Any]]:
    usual = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return [{**usual, "labelSelector": {"matchLabels": WEB}, **constraint}]


# InterPodAffinity


def test_pod_affinity_needs_a_pod_in_the_same_topology() -> None:
    pod = make_pod(affinity=near(WEB))
    reason = "1 node(s) didn't match pod affinity rules"

    assert decided(make_state(make_node()), pod).message == f"0/1 nodes are available: {reason}. {NOT_HELPFUL}"
    assert fits(make_node(), pod, make_pod("web", labels=WEB))
    assert not fits(make_node(), pod, make_pod("web", labels=WEB, namespace="other"))
    assert not fits(make_node(), make_pod(affinity=near(WEB, ZONE)), make_pod("web", labels=WEB))


def test_first_pod_with_affinity_to_itself_fits() -> None:
    assert fits(make_node(), make_pod(labels=WEB, affinity=near(WEB)))
    assert not fits(make_node(), make_pod(labels=WEB, affinity=near(WEB, ZONE)))


def test_pod_anti_affinity_keeps_pods_apart_in_both_directions() -> None:
    shy, web = make_pod("shy", affinity=apart(WEB)), make_pod("web", labels=WEB)

    found = decided(make_state(make_node(), pods=(web,)), shy).message
    assert found == f"0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules. {NO_VICTIMS}"
    found = decided(make_state(make_node(), pods=(shy,)), make_pod("web", labels=WEB)).message
    reason = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    assert found == f"0/1 nodes are available: {reason}. {NO_VICTIMS}"
    assert fits(make_node(), make_pod("two", affinity=apart({"app": "two"})), web)


@pytest.mark.parametrize(
    ("term", "allowed"),
    [
        ({"namespaces": ["other"]}, True),
        ({"namespaces": ["third"]}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"labelSelector": None, "namespaceSelector": {}}, False),
    ],
)
def test_namespaces_of_affinity_terms(term: dict[str, Any], *, allowed: bool) -> None:
    state = make_state(make_node(), pods=(make_pod("web", labels=WEB, namespace="other"),))
    state.namespaces["other"] = {"team": "a"}

    assert bool(decided(state, make_pod(affinity=near(WEB, **term))).feasible) is allowed


def test_affinity_counts_pods_on_other_nodes_of_the_topology() -> None:
    zone = {ZONE: "a"}
    full = make_node("n1", labels=zone, unschedulable=True)
    state = make_state(full, make_node("n2", labels=zone), pods=(make_pod("web", labels=WEB),))

    assert decided(state, make_pod(affinity=near(WEB, ZONE))).feasible == ("n2",)


# PodTopologySpread


def zones(*names: str) -> list[NodeInfo]:
    return [make_node(f"n{number}", labels={ZONE: name}) for number, name in enumerate(names)]


def web(number: int, node: str) -> dict[str, Any]:
    return make_pod(f"web-{number}", labels=WEB, nodeName=node)


def test_pods_are_spread_over_topologies() -> None:
    state = make_state(*zones("a", "b"), pods=(web(0, "n0"),))
    assert decided(state, make_pod(labels=WEB, topologySpreadConstraints=spread())).feasible == ("n1",)


def test_single_node_is_balanced_whatever_runs_on_it() -> None:
    state = make_state(*zones("a"), pods=tuple(web(number, "n0") for number in range(5)))
    pod = make_pod(labels=WEB, topologySpreadConstraints=spread())
    assert decided(state, pod).feasible == ("n0",)

    pod = make_pod(labels=WEB, topologySpreadConstraints=spread(minDomains=2))
    reason = "1 node(s) didn't match pod topology spread constraints"
    assert decided(state, pod).message == f"0/1 nodes are available: {reason}. {NO_VICTIMS}"


def test_node_without_the_topology_is_reported() -> None:
    pod = make_pod(labels=WEB, topologySpreadConstraints=spread())
    reason = "1 node(s) didn't match pod topology spread constraints (missing required label)"
    assert decided(make_state(make_node()), pod).message == f"0/1 nodes are available: {reason}. {NOT_HELPFUL}"
    assert fits(make_node(), make_pod(labels=WEB, topologySpreadConstraints=spread(whenUnsatisfiable="ScheduleAnyway")))


def test_inclusion_policies_select_the_nodes() -> None:
    nodes = [*zones("a"), make_node("n1", labels={ZONE: "b"}, taints=[{"key": "x", "effect": "NoSchedule"}])]
    state = make_state(*nodes, pods=(web(0, "n0"),))

    assert decided(state, make_pod(labels=WEB, topologySpreadConstraints=spread())).feasible == ()
    honored = spread(nodeTaintsPolicy="Honor")
    assert decided(state, make_pod(labels=WEB, topologySpreadConstraints=honored)).feasible == ("n0",)
    selected = make_pod(labels=WEB, topologySpreadConstraints=spread(), nodeSelector={ZONE: "a"})
    assert decided(state, selected).feasible == ("n0",)
    ignored = make_pod(
        labels=WEB, topologySpreadConstraints=spread(nodeAffinityPolicy="Ignore"), nodeSelector={ZONE: "a"}
    )
    assert decided(state, ignored).feasible == ()


def test_match_label_keys_narrow_the_selector() -> None:
    old = make_pod("old", labels={**WEB, "rev": "1"})
    state = make_state(*zones("a", "b"), pods=(old,))
    keys = spread(matchLabelKeys=["rev"])
    assert decided(state, make_pod(labels={**WEB, "rev": "2"}, topologySpreadConstraints=keys)).feasible == ("n0", "n1")
    assert decided(state, make_pod(labels={**WEB, "rev": "1"}, topologySpreadConstraints=keys)).feasible == ("n1",)


# Messages


def test_reasons_of_several_nodes_are_counted() -> None:
    nodes = [make_node("n1", unschedulable=True), make_node("n2"), make_node("n3", ready=False), make_node("n4")]
    expected = (
        "0/4 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, "
        "1 node(s) were unschedulable, 2 Insufficient cpu. preemption: 0/4 nodes are available: "
        "2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    assert decided(make_state(*nodes), make_pod(requests={"cpu": "64"})).message == expected


def test_first_filter_that_rejects_gives_the_reasons() -> None:
    decision = decided(make_state(make_node(unschedulable=True)), make_pod(requests={"cpu": "64"}))
    assert decision.filters == {"NodeUnschedulable"}
    assert "cpu" not in decision.message


def test_lower_priority_pods_do_not_help_an_unfit_pod() -> None:
    small = make_pod("small", requests={"cpu": "1"})
    found = decided(make_state(make_node(), pods=(small,)), make_pod(requests={"cpu": "64"}, priority=10)).message
    assert found == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Insufficient cpu."
    )


def test_preemption_that_would_help_is_not_mentioned() -> None:
    small = make_pod("small", requests={"cpu": "1"})
    found = decided(make_state(make_node(), pods=(small,)), make_pod(requests={"cpu": "2"}, priority=10)).message
    assert found == "0/1 nodes are available: 1 Insufficient cpu."


def test_pod_that_never_preempts_is_not_eligible() -> None:
    found = decided(make_state(make_node()), make_pod(requests={"cpu": "64"}, preemptionPolicy="Never")).message
    assert found == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


def test_decision_leaves_the_state_unchanged() -> None:
    state = make_state(make_node(), pods=(make_pod("small", requests={"cpu": "1"}),))
    for _ in range(2):
        decided(state, make_pod(requests={"cpu": "2"}, priority=10))
    assert list(state.nodes["n1"].pods) == ["default/small"]
    assert state.nodes["n1"].requested == {"cpu": 1000}


def test_pod_that_its_constraint_does_not_select_adds_nothing() -> None:
    nodes = [make_node(name, labels={ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]
    state = make_state(*nodes, pods=(make_pod("web", labels=WEB),))

    assert decided(state, make_pod(topologySpreadConstraints=spread())).feasible == ("n1", "n2")
    assert decided(state, make_pod(labels=WEB, topologySpreadConstraints=spread())).feasible == ("n2",)


def test_constraint_without_a_selector_counts_nothing() -> None:
    state = make_state(make_node(labels={ZONE: "a"}), make_node("n2", labels={ZONE: "b"}))
    constraint = spread(labelSelector=None)

    assert decided(state, make_pod(labels=WEB, topologySpreadConstraints=constraint)).feasible == ("n1", "n2")
