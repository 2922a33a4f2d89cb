"""Tests for the filters of a single node."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.decision import decide
from apiserver_stub.scheduling.model import SchedulingFeatures, read_pod

from .cluster import NO_VICTIMS, NOT_HELPFUL, decided, fits, make_node, make_pod, make_state


def message(node: Any, pod: Any, *others: Any) -> str:
    return decided(make_state(node, pods=others), pod).message


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def requires(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def test_pod_without_constraints_fits() -> None:
    assert fits(make_node(), make_pod())


def test_cluster_without_nodes_is_reported() -> None:
    assert decided(make_state(), make_pod()).message == "no nodes available to schedule pods"


# NodeUnschedulable and NodeName


def test_cordoned_node_requires_a_toleration() -> None:
    node = make_node(unschedulable=True)
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}

    assert message(node, make_pod()) == f"0/1 nodes are available: 1 node(s) were unschedulable. {NOT_HELPFUL}"
    assert fits(node, make_pod(tolerations=[toleration]))


# TaintToleration

GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Like", "value": "yes"}, False),
    ],
)
def test_taint_is_tolerated_by_key_value_and_effect(toleration: dict[str, str], *, tolerated: bool) -> None:
    assert fits(make_node(taints=[GPU]), make_pod(tolerations=[toleration])) is tolerated


def test_first_untolerated_taint_is_reported() -> None:
    taints = [{"key": "soft", "effect": "PreferNoSchedule"}, GPU, {"key": "b", "effect": "NoExecute"}]

    expected = f"0/1 nodes are available: 1 node(s) had untolerated taint {{gpu: yes}}. {NOT_HELPFUL}"
    assert message(make_node(taints=taints), make_pod()) == expected
    expected = f"0/1 nodes are available: 1 node(s) had untolerated taint {{b: }}. {NOT_HELPFUL}"
    assert message(make_node(taints=taints), make_pod(tolerations=[{"key": "gpu", "operator": "Exists"}])) == expected


def test_unready_node_is_treated_as_tainted() -> None:
    expected = "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    assert expected in message(make_node(ready=False), make_pod())
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
    assert "node.kubernetes.io/unreachable" in message(make_node(ready=False, taints=[unreachable]), make_pod())


# NodeAffinity


@pytest.mark.parametrize(
    ("selector", "allowed"), [({"disk": "ssd"}, True), ({"disk": "hdd"}, False), ({"none": ""}, False)]
)
def test_node_selector(selector: dict[str, str], *, allowed: bool) -> None:
    assert fits(make_node(labels={"disk": "ssd"}), make_pod(nodeSelector=selector)) is allowed


@pytest.mark.parametrize(
    ("item", "allowed"),
    [
        (term("disk", "In", "hdd", "ssd"), True),
        (term("disk", "In", "hdd"), False),
        (term("none", "In", "x"), False),
        (term("disk", "NotIn", "hdd"), True),
        (term("disk", "NotIn", "ssd"), False),
        (term("none", "NotIn", "x"), True),
        (term("disk", "Exists"), True),
        (term("none", "Exists"), False),
        (term("disk", "DoesNotExist"), False),
        (term("none", "DoesNotExist"), True),
        (term("cores", "Gt", "7"), True),
        (term("cores", "Gt", "8"), False),
        (term("cores", "Lt", "9"), True),
        (term("cores", "Lt", "8"), False),
        (term("disk", "Gt", "1"), False),
        (term("none", "Lt", "1"), False),
        # Malformed terms match nothing, as do empty ones.
        (term("disk", "In"), False),
        (term("disk", "Exists", "x"), False),
        (term("cores", "Gt", "1", "2"), False),
        (term("cores", "Gt", "1.5"), False),
        (term("disk", "Like", "s*"), False),
        ({}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n2"]}]}, True),
        ({"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["a", "b"]}]}, False),
    ],
)
def test_required_node_affinity(item: dict[str, Any], *, allowed: bool) -> None:
    node = make_node(labels={"disk": "ssd", "cores": "8"})
    assert fits(node, make_pod(affinity=requires(item))) is allowed


def test_terms_are_alternatives_and_expressions_of_a_term_are_not() -> None:
    node = make_node(labels={"disk": "ssd"})
    both = term("disk", "In", "ssd") | {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}

    assert fits(node, make_pod(affinity=requires(term("disk", "In", "hdd"), term("disk", "Exists"))))
    assert not fits(node, make_pod(affinity=requires(both)))
    assert not fits(node, make_pod(affinity=requires(term("disk", "Exists")), nodeSelector={"disk": "hdd"}))
    assert not fits(node, make_pod(affinity=requires()))


def test_unmatched_affinity_is_reported() -> None:
    reason = "1 node(s) didn't match Pod's node affinity/selector"
    expected = f"0/1 nodes are available: {reason}. {NOT_HELPFUL}"
    assert message(make_node(), make_pod(nodeSelector={"disk": "ssd"})) == expected


def test_affinity_to_another_node_is_reported() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]
    expected = f"0/1 nodes are available: {NOT_HELPFUL}"
    assert message(make_node(), make_pod(affinity=requires({"matchFields": fields}))) == expected
    other = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    expected = f"0/1 nodes are available: pod affinity terms conflict. {NOT_HELPFUL}"
    assert message(make_node(), make_pod(affinity=requires({"matchFields": [*fields, other]}))) == expected


# NodePorts


@pytest.mark.parametrize(
    ("used", "desired", "free"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "10.0.0.1"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"containerPort": 80}, {"containerPort": 80}, True),
    ],
)
def test_host_ports(used: dict[str, Any], desired: dict[str, Any], *, free: bool) -> None:
    assert fits(make_node(), make_pod(ports=[desired]), make_pod("other", ports=[used])) is free


def test_used_host_port_is_reported() -> None:
    reason = "1 node(s) didn't have free ports for the requested pod ports"
    ports = [{"hostPort": 80}]
    found = message(make_node(), make_pod(ports=ports), make_pod("other", ports=ports))
    assert found == f"0/1 nodes are available: {reason}. {NO_VICTIMS}"


# NodeResourcesFit


@pytest.mark.parametrize(
    ("requests", "missing"),
    [
        ({"cpu": "64"}, "1 Insufficient cpu"),
        ({"cpu": "2001m"}, "1 Insufficient cpu"),
        ({"cpu": "2"}, ""),
        ({"memory": "5Gi"}, "1 Insufficient memory"),
        ({"ephemeral-storage": "11Gi"}, "1 Insufficient ephemeral-storage"),
        ({"cpu": "3", "memory": "5Gi"}, "1 Insufficient cpu, 1 Insufficient memory"),
        ({"example.com/gpu": "1"}, "1 Insufficient example.com/gpu"),
        ({"example.com/gpu": "0"}, ""),
        ({"example.com/fpga": "2"}, ""),
        ({"example.com/fpga": "3"}, "1 Insufficient example.com/fpga"),
        ({"hugepages-2Mi": "4Mi"}, "1 Insufficient hugepages-2Mi"),
        ({"cpu": "9999999999999999E"}, "1 Insufficient cpu"),
    ],
)
def test_requests_must_fit_into_allocatable(requests: dict[str, str], missing: str) -> None:
    node = make_node(allocatable={"example.com/fpga": "2"})
    expected = f"0/1 nodes are available: {missing}. {NO_VICTIMS}" if missing else ""
    assert message(node, make_pod(requests=requests)) == expected


def test_requests_of_running_pods_are_subtracted() -> None:
    running = make_pod("other", requests={"cpu": "1500m"})
    assert fits(make_node(), make_pod(requests={"cpu": "500m"}), running)
    assert not fits(make_node(), make_pod(requests={"cpu": "501m"}), running)


def test_init_containers_sidecars_and_overhead_are_included() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **more}

    sidecar = container("500m", restartPolicy="Always")
    assert fits(make_node(), make_pod(requests={"cpu": "1"}, initContainers=[container("2"), container("2")]))
    assert not fits(make_node(), make_pod(initContainers=[container("2001m")]))
    assert fits(make_node(), make_pod(requests={"cpu": "1500m"}, initContainers=[sidecar]))
    assert not fits(make_node(), make_pod(requests={"cpu": "1501m"}, initContainers=[sidecar]))
    assert not fits(make_node(), make_pod(initContainers=[sidecar, container("1501m")]))
    assert fits(make_node(), make_pod(initContainers=[container("2"), sidecar]))
    assert not fits(make_node(), make_pod(requests={"cpu": "2"}, overhead={"cpu": "1m"}))


def test_number_of_pods_is_limited() -> None:
    node = make_node(allocatable={"pods": "2"})
    others = [make_pod("a"), make_pod("b")]
    assert fits(node, make_pod(), others[0])
    found = decided(make_state(make_node(allocatable={"pods": "2"}), pods=tuple(others)), make_pod()).message
    assert found == f"0/1 nodes are available: 1 Too many pods. {NO_VICTIMS}"


def test_resources_of_a_removed_pod_are_released() -> None:
    state = make_state(make_node(), pods=(make_pod("other", requests={"cpu": "2"}),))
    assert not decided(state, make_pod(requests={"cpu": "1"})).feasible

    state.release("default/other")

    assert decided(state, make_pod(requests={"cpu": "1"})).feasible


# Features of later releases


@pytest.mark.parametrize(
    ("operator", "limit", "tolerated"),
    [("Lt", "951", True), ("Lt", "950", False), ("Gt", "949", True), ("Gt", "950", False), ("Gt", "0900", False)],
)
def test_tolerations_compare_numbers_if_enabled(operator: str, limit: str, tolerated: bool) -> None:
    node = make_node(taints=[{"key": "sla", "value": "950", "effect": "NoSchedule"}])
    pod = make_pod(tolerations=[{"key": "sla", "operator": operator, "value": limit}])

    enabled = decide(make_state(node), read_pod(pod, SchedulingFeatures(compares_taints=True)))

    assert bool(enabled.feasible) is tolerated
    assert not fits(node, pod)


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True, "hostUsers": False},
        {"initContainers": [{"name": "i", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
    ],
)
def test_nodes_must_declare_required_features_if_enabled(spec: dict[str, Any]) -> None:
    names = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"]
    features = SchedulingFeatures(requires_declared=True)
    pod = make_pod(**spec)

    rejected = decide(make_state(make_node()), read_pod(pod, features))

    assert rejected.message.startswith("0/1 nodes are available: 1 node(s) didn't match Pod's required features.")
    assert decide(make_state(make_node(declared=names)), read_pod(pod, features)).feasible
    assert fits(make_node(), pod)


def test_pod_level_requests_must_fit() -> None:
    pod = make_pod(requests={"cpu": "1"}, resources={"requests": {"cpu": "3"}})

    assert message(make_node(), pod) == f"0/1 nodes are available: 1 Insufficient cpu. {NO_VICTIMS}"
