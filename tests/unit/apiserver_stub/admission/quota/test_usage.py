"""Tests for the usage of objects that quotas count."""

from __future__ import annotations

from typing import Any

from apiserver_stub.admission.quota.usage import QuotaNames, concerned, in_scope, not_given, scopes, usage
from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.identity import Identity

NAMES = QuotaNames.of(Identity())


def test_quota_usage_of_objects():
    init = {"name": "i", "resources": {"requests": {"cpu": "2"}}}
    container = {"name": "c", "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}}}
    pod = {"spec": {"containers": [container], "initContainers": [init], "overhead": {"cpu": "100m"}}}
    claim = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}
    service = {"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}

    found = {name: str(amount) for name, amount in usage("pods", pod, NAMES).items()}
    stored = {name: str(amount) for name, amount in usage("persistentvolumeclaims", claim, NAMES).items()}
    served = {name: str(amount) for name, amount in usage("services", service, NAMES).items()}

    expected = {"cpu": "2100m", "requests.cpu": "2100m", "limits.memory": "1Gi", "pods": "1", "count/pods": "1"}
    assert found == expected
    assert stored["fast.storageclass.storage.k8s.io/requests.storage"] == "1Gi"
    assert (served["services.nodeports"], served["services.loadbalancers"]) == ("2", "1")
    assert usage("pods", {**pod, "status": {"phase": "Failed"}}, NAMES).keys() == {"count/pods"}
    assert not_given(pod, ["cpu", "limits.memory"], "kubernetes.io") == "must specify limits.memory for: i"


def test_quotas_match_kinds_and_scopes():
    pod = {"spec": {"containers": [], "priorityClassName": "high", "activeDeadlineSeconds": 5}}
    high = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}

    assert concerned("pods", ["pods", "services", "requests.example.com/gpu", "count/pods"], NAMES) == {
        "pods",
        "requests.example.com/gpu",
        "count/pods",
    }
    assert in_scope("pods", pod, high)
    assert in_scope("pods", pod, {"scopeName": "Terminating"})
    assert in_scope("pods", pod, {"scopeName": "BestEffort"})
    assert not in_scope("pods", pod, {**high, "values": ["low"]})
    assert not in_scope("services", {}, {"scopeName": "BestEffort"})


def shown(label: str, spec: Object, **fields: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in usage(label, {"spec": spec, **fields}, NAMES).items()}


def container(name: str = "c", requests: Any = None, limits: Any = None) -> Object:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}}


def test_usage_depends_on_the_kind() -> None:
    for label, expected in (
        ("configmaps", {"count/configmaps": "1", "configmaps": "1"}),
        ("deployments.apps", {"count/deployments.apps": "1"}),
        ("services", {"count/services": "1", "services": "1"}),
        ("persistentvolumeclaims", {"count/persistentvolumeclaims": "1", "persistentvolumeclaims": "1"}),
        ("pods", {"count/pods": "1", "pods": "1"}),
    ):
        assert shown(label, {}) == expected, label
    for phase, counted in (("Running", True), ("Succeeded", False), ("Failed", False), (None, True)):
        assert ("pods" in shown("pods", {}, status={"phase": phase})) is counted, phase


def test_services_use_node_ports_by_their_type() -> None:
    ports = [{}, {}]
    for spec, expected in (
        ({"type": "ClusterIP"}, {}),
        ({"type": "NodePort"}, {"services.nodeports": "2"}),
        ({"type": "LoadBalancer"}, {"services.loadbalancers": "1", "services.nodeports": "2"}),
        (
            {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": True},
            {"services.loadbalancers": "1", "services.nodeports": "2"},
        ),
        ({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False}, {"services.loadbalancers": "1"}),
    ):
        found = shown("services", {**spec, "ports": ports})
        assert {name: amount for name, amount in found.items() if "." in name} == expected, spec


def test_claims_use_storage_of_their_class() -> None:
    infix = ".storageclass.storage.k8s.io/"
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    for spec, expected in (
        (size, {"requests.storage": "1Gi"}),
        ({"storageClassName": "fast"}, {f"fast{infix}persistentvolumeclaims": "1"}),
        ({"storageClassName": "", **size}, {"requests.storage": "1Gi"}),
        (
            {"storageClassName": "fast", **size},
            {
                "requests.storage": "1Gi",
                f"fast{infix}persistentvolumeclaims": "1",
                f"fast{infix}requests.storage": "1Gi",
            },
        ),
    ):
        found = shown("persistentvolumeclaims", spec)
        assert {name: amount for name, amount in found.items() if "." in name} == expected, spec


def test_pods_use_compute_extended_resources_and_huge_pages() -> None:
    requests = {"cpu": "1", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "kubernetes.io/batch-cpu": "1"}
    limits = {"cpu": "2", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    spec = {"containers": [container(requests=requests, limits=limits)], "overhead": {"cpu": "1", "memory": "1Mi"}}
    assert shown("pods", spec) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "2",
        "requests.cpu": "2",
        "memory": "1Mi",
        "requests.memory": "1Mi",
        "requests.example.com/gpu": "2",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "limits.cpu": "3",
    }


def test_limited_names_concern_some_kinds() -> None:
    storage = "fast.storageclass.storage.k8s.io/requests.storage"
    for label, name, expected in (
        ("pods", "count/pods", True),
        ("pods", "count/services", False),
        ("pods", "cpu", True),
        ("pods", "limits.ephemeral-storage", True),
        ("pods", "requests.example.com/gpu", True),
        ("pods", "example.com/gpu", False),
        ("pods", "requests.kubernetes.io/x", False),
        ("pods", "hugepages-2Mi", True),
        ("pods", "requests.hugepages-2Mi", True),
        ("pods", "services", False),
        ("services", "services.nodeports", True),
        ("services", "pods", False),
        ("persistentvolumeclaims", "requests.storage", True),
        ("persistentvolumeclaims", "persistentvolumeclaims", True),
        ("persistentvolumeclaims", storage, True),
        ("persistentvolumeclaims", "pods", False),
        ("configmaps", "configmaps", True),
        ("configmaps", "secrets", False),
        ("deployments.apps", "deployments.apps", False),
        ("deployments.apps", "count/deployments.apps", True),
    ):
        assert concerned(label, [name], NAMES) == ({name} if expected else set()), (label, name)


def test_missing_requests_and_limits_are_listed_by_resource() -> None:
    full = {"cpu": "1", "memory": "1Mi"}
    for title, spec, names, expected in (
        ("given", {"containers": [container(requests=full, limits=full)]}, ["cpu", "limits.memory"], ""),
        ("not required", {"containers": [container()]}, ["pods", "requests.storage"], ""),
        (
            "several",
            {"containers": [container("b"), container("a")], "initContainers": [container("i", requests=full)]},
            ["cpu", "limits.cpu"],
            "must specify cpu for: a,b; limits.cpu for: a,b,i",
        ),
        ("of the pod", {"containers": [container()], "resources": {"requests": {"cpu": "1"}}}, ["cpu"], ""),
        ("no containers", {}, ["cpu"], ""),
    ):
        assert not_given({"spec": spec}, names, "kubernetes.io") == expected, title


def test_scopes_are_expressions() -> None:
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    quota = {"spec": {"scopes": ["BestEffort"], "scopeSelector": {"matchExpressions": [expression]}}}
    assert scopes(quota) == [{"scopeName": "BestEffort", "operator": "Exists"}, expression]
    assert scopes({}) == []


def test_pods_are_in_scopes() -> None:
    def priority(operator: str, *values: str) -> Object:
        return {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}

    term: Object = {"topologyKey": "k"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{**term, "namespaces": ["x"]}]}
    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {**term, "namespaceSelector": {}}}]
    }
    own = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    effort = {"containers": [container(requests={"cpu": "1"})]}
    for spec, scope, expected in (
        ({}, "Terminating", False),
        ({"activeDeadlineSeconds": 0}, "Terminating", True),
        ({"activeDeadlineSeconds": -1}, "Terminating", False),
        ({}, "NotTerminating", True),
        ({"activeDeadlineSeconds": 5}, "NotTerminating", False),
        ({"containers": [container()]}, "BestEffort", True),
        (effort, "BestEffort", False),
        ({"containers": [container()]}, "NotBestEffort", False),
        (effort, "NotBestEffort", True),
        ({}, "CrossNamespacePodAffinity", False),
        ({"affinity": {"podAffinity": own}}, "CrossNamespacePodAffinity", False),
        ({"affinity": {"podAffinity": required}}, "CrossNamespacePodAffinity", True),
        ({"affinity": {"podAntiAffinity": preferred}}, "CrossNamespacePodAffinity", True),
        ({}, "Unknown", False),
    ):
        assert in_scope("pods", {"spec": spec}, {"scopeName": scope}) is expected, (spec, scope)
    for name, expression, expected in (
        ("high", priority("In", "high"), True),
        ("low", priority("In", "high"), False),
        ("high", priority("NotIn", "high"), False),
        ("low", priority("NotIn", "high"), True),
        ("high", priority("Exists"), True),
        ("", priority("Exists"), False),
        ("high", priority("DoesNotExist"), False),
        ("", priority("DoesNotExist"), True),
        ("high", priority("Like", "high"), False),
    ):
        assert in_scope("pods", {"spec": {"priorityClassName": name}}, expression) is expected, (name, expression)
