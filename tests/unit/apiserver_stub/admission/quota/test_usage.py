"""Tests for the usage of objects that quotas count."""

from __future__ import annotations

from apiserver_stub.admission.quota.usage import QuotaNames, concerned, in_scope, not_given, usage
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
