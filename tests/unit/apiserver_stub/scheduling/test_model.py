"""Tests for the attributes of pods and nodes that filters use."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.scheduling.model import (
    ANY_ADDRESS,
    AffinityTerm,
    NodeInfo,
    NodeTaintKeys,
    PodInfo,
    SchedulingFeatures,
    read_pod,
    read_resources,
    tolerates,
)
from nodeagent.base.identity import Identity

KEYS = NodeTaintKeys.of(Identity())


def pod(name: str = "p", *, status: Object | None = None, labels: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec, "status": status}


def node(*, ready: bool = True, labels: Object | None = None, status: Object | None = None, **spec: Any) -> NodeInfo:
    return NodeInfo({"metadata": {"name": "n", "labels": labels}, "spec": spec, "status": status}, KEYS, ready=ready)


def test_minimal_pod_has_no_constraints() -> None:
    found = read_pod({"metadata": {"name": "p"}})
    assert (found.namespace, found.node, found.uid, found.priority, found.labels) == ("", "", "", 0, {})
    assert (found.deleting, found.may_preempt, found.node_terms, found.node_selector) == (False, True, None, {})
    assert not (found.requests or found.ports or found.tolerations or found.claims or found.spread or found.features)


def test_attributes_of_a_pod_are_read() -> None:
    obj = pod(nodeName="n", priority=7, preemptionPolicy="Never", nodeSelector={"a": "b"})
    obj["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": "u"}
    found = read_pod(obj)
    assert (found.node, found.priority, found.may_preempt, found.deleting) == ("n", 7, False, True)
    assert (found.node_selector, found.uid) == ({"a": "b"}, "u")
    assert read_pod(pod(preemptionPolicy="PreemptLowerPriority")).may_preempt


def test_resources_are_millicores_and_integers() -> None:
    assert read_resources({"cpu": "1500m", "memory": "1Ki"}) == {"cpu": 1500, "memory": 1024}
    assert read_resources(None) == read_resources("x") == {}


def test_host_ports_have_defaults() -> None:
    ports = [{"hostPort": 80}, {"hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}, {"hostPort": 0}, {}]
    found = read_pod(pod(containers=[{"ports": ports}, {}])).ports
    assert found == ((ANY_ADDRESS, "TCP", 80), ("10.0.0.1", "UDP", 81))


def test_claims_are_those_of_volumes() -> None:
    volumes = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "scratch", "ephemeral": {}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {}},
    ]
    assert read_pod(pod(volumes=volumes)).claims == (("data", False), ("p-scratch", True))


def test_comparing_tolerations_require_the_feature() -> None:
    tolerations = [{"operator": "Lt"}, {"operator": "Gt"}, {"operator": "Exists"}, {}]
    assert read_pod(pod(tolerations=tolerations)).tolerations == ({"operator": "Exists"}, {})
    assert len(read_pod(pod(tolerations=tolerations), SchedulingFeatures(compares_taints=True)).tolerations) == 4


def test_toleration_matches_key_effect_and_value() -> None:
    taint = {"key": "k", "value": "5", "effect": "NoSchedule"}
    for toleration, expected in (
        ({"key": "k", "value": "5"}, True),
        ({"key": "k", "value": "5", "effect": "NoSchedule"}, True),
        ({"key": "k", "value": "5", "effect": "NoExecute"}, False),
        ({"key": "x", "value": "5"}, False),
        ({"key": "k", "value": "6"}, False),
        ({"key": "k", "operator": "Equal", "value": "5"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "x", "operator": "Exists"}, False),
        ({"key": "k", "operator": "Lt", "value": "6"}, True),
        ({"key": "k", "operator": "Lt", "value": "5"}, False),
        ({"key": "k", "operator": "Gt", "value": "4"}, True),
        ({"key": "k", "operator": "Gt", "value": "5"}, False),
        ({"key": "k", "operator": "Lt", "value": "06"}, False),
        ({"key": "k", "operator": "Lt"}, False),
        ({"key": "k", "operator": "Lt", "value": str(2**63 - 1)}, True),
        ({"key": "k", "operator": "Lt", "value": str(2**63)}, False),
        ({"key": "k", "operator": "Gt", "value": str(-(2**63))}, True),
        ({"key": "k", "operator": "Gt", "value": str(-(2**63) - 1)}, False),
        ({"key": "k", "operator": "Other", "value": "5"}, False),
    ):
        assert tolerates(toleration, taint) is expected, toleration
    assert tolerates({"key": "k"}, {"key": "k"})
    assert not tolerates({"key": "k", "value": "x"}, {"key": "k"})
    assert not tolerates({"key": "k", "operator": "Lt", "value": "6"}, {"key": "k", "value": "x"})


def test_affinity_terms_apply_to_the_namespace_of_the_pod_by_default() -> None:
    def terms(**fields: Any) -> tuple[AffinityTerm, ...]:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **fields}]}
        return read_pod(pod(affinity={"podAffinity": required})).affinity

    web, everything = {"matchLabels": {"app": "web"}}, {"labelSelector": {}}
    prod = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    for title, fields, labels, namespace, expected in (
        ("own namespace", {"labelSelector": web}, {"app": "web"}, "default", True),
        ("other labels", {"labelSelector": web}, {"app": "db"}, "default", False),
        ("other namespace", {"labelSelector": web}, {"app": "web"}, "other", False),
        ("no selector", {}, {"app": "web"}, "default", False),
        ("named", {**everything, "namespaces": ["other"]}, {}, "other", True),
        ("not named", {**everything, "namespaces": ["other"]}, {}, "default", False),
        ("selected", {**everything, **prod}, {}, "prod", True),
        ("not selected", {**everything, **prod}, {}, "default", False),
        ("named, not selected", {**everything, **prod, "namespaces": ["default"]}, {}, "default", True),
        ("every namespace", {**everything, "namespaceSelector": {}}, {}, "other", True),
    ):
        (found,) = terms(**fields)
        other = PodInfo(namespace, "x", labels=labels)
        assert found.matches(other, {"env": "prod"} if namespace == "prod" else {}) is expected, title
        assert found.topology_key == "zone"
    assert read_pod(pod(affinity={"podAntiAffinity": {}})).anti_affinity == ()


def test_spread_constraints_that_must_hold_are_read_with_defaults() -> None:
    def spread(**fields: Any) -> Any:
        constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **fields}
        found = read_pod(pod(labels={"app": "web", "rev": "1"}, topologySpreadConstraints=[constraint])).spread
        return found[0] if found else None

    default = spread()
    assert (default.max_skew, default.topology_key, default.min_domains) == (2, "zone", 1)
    assert (default.honors_affinity, default.honors_taints, default.selector) == (True, False, None)
    assert spread(whenUnsatisfiable="ScheduleAnyway") is None
    assert spread(minDomains=3).min_domains == 3
    assert not spread(nodeAffinityPolicy="Ignore").honors_affinity
    assert spread(nodeTaintsPolicy="Honor").honors_taints
    keyed = spread(labelSelector={"matchLabels": {"app": "web"}}, matchLabelKeys=["rev", "missing"]).selector
    for labels, expected in (
        ({"app": "web", "rev": "1"}, True),
        ({"app": "web", "rev": "2"}, False),
        ({"rev": "1"}, False),
    ):
        assert keyed.matches(labels) is expected, labels
    assert spread(labelSelector={}, matchLabelKeys=["missing"]).selector.matches({})
    assert spread(matchLabelKeys=["rev"]).selector is None


def test_node_that_is_not_ready_has_a_taint() -> None:
    added = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = {"key": "x", "effect": "NoExecute"}
    unreachable = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    for ready, taints, expected in (
        (True, None, ()),
        (True, [own], (own,)),
        (False, [own], (own, added)),
        (False, [unreachable], (unreachable,)),
        (False, [{**added, "value": "v"}], ({**added, "value": "v"},)),
    ):
        assert node(ready=ready, taints=taints).taints == expected, (ready, taints)


def test_first_taint_that_blocks_and_is_not_tolerated() -> None:
    soft, hard, strict = (
        {"key": key, "effect": effect} for key, effect in (("s", "Prefer"), ("h", "NoSchedule"), ("x", "NoExecute"))
    )
    found = read_pod(pod(tolerations=[{"key": "h", "operator": "Exists"}]))
    assert found.untolerated((soft, hard, strict)) == strict
    assert found.untolerated((soft, hard)) is None
    assert not read_pod(pod()).tolerates(hard)


def test_nodes_are_alike_if_nothing_that_filters_use_differs() -> None:
    for title, change in (
        ("labels", {"labels": {"a": "b"}}),
        ("ready", {"ready": False}),
        ("unschedulable", {"unschedulable": True}),
        ("taints", {"taints": [{"key": "a"}]}),
        ("allocatable", {"status": {"allocatable": {"cpu": "1"}}}),
        ("features", {"status": {"declaredFeatures": ["x"]}}),
    ):
        assert not node().is_like(node(**change)), title
        assert node(**change).is_like(node(**change)), title
    assert node().is_like(node(status={"conditions": []}))


def test_requests_of_the_pods_of_a_node_are_added_up() -> None:
    found, half = node(), PodInfo("default", "p", requests={"cpu": 500})
    found.add("a", half)
    found.add("b", half)
    found.add("b", PodInfo("default", "p", requests={"cpu": 700, "memory": 1}))
    copy = found.without(["a", "missing"])
    assert found.requested == {"cpu": 1200, "memory": 1}
    assert (copy.requested, list(copy.pods)) == ({"cpu": 700, "memory": 1}, ["b"])
    assert list(found.pods) == ["a", "b"]
