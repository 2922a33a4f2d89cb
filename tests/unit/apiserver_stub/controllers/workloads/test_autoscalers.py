"""Tests for the horizontal pod autoscaler: metrics, sizes, conditions and events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from nodeagent.base.identity import Identity
from nodeagent.base.release import NEWEST
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import DEPLOYMENTS, Cluster, cluster, deployment, template

__all__ = ["store"]
pytestmark = pytest.mark.covers(
    "apiserver_stub.controllers.autoscaling.evaluation", "apiserver_stub.controllers.autoscaling.scale_targets"
)
WEB = "default/web"
CONTROLLERS = ("deployment-controller", "replicaset-controller", "horizontal-pod-autoscaler-controller")
AUTOSCALERS = "autoscaling/horizontalpodautoscalers"
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


class Metrics:
    """Agents and extension servers: the CPU usage of each pod, and the documents of metrics APIs."""

    def __init__(self, clock: FakeClock) -> None:
        self.store: MeteredStore | None = None
        self.clock = clock
        self.millicores = 0
        self.documents: dict[str, Any] = {}
        self.node_status = 200
        self.requests: list[str] = []

    async def read_api(self, group: str, version: str, path: str) -> Any:
        self.requests.append(path)
        found = next((value for name, value in self.documents.items() if path.startswith(f"/apis/{name}")), None)
        if found is None:
            raise LookupError(group)
        if isinstance(found, str):
            raise MetricsError(found)
        return found

    async def read_node(self, node: str, path: str) -> tuple[int, bytes]:
        self.requests.append(path)
        assert self.store is not None
        time = objects.format_time(self.clock.wall())
        pods = [objects.decode(record.data) for record in self.store.collection("core/pods").select()]
        usage = {"time": time, "usageNanoCores": self.millicores * 10**6}
        items = [
            {"podRef": {"uid": pod["metadata"]["uid"]}, "containers": [{"name": "c", "cpu": usage}]}
            for pod in pods
            if pod["spec"].get("nodeName") == node
        ]
        return self.node_status, json.dumps({"pods": items}).encode()


@asynccontextmanager
async def autoscaled(
    store: MeteredStore,
    backends: Metrics,
    replicas: int = 2,
    *,
    cpu: str | None = "100m",
    gates: Any = None,
    **spec: Any,
) -> AsyncIterator[Cluster]:
    """Run an autoscaler of a Deployment whose pods run and request *cpu*."""
    backends.store = store
    client = MetricsClient(backends.read_api, backends.read_node, Identity(), backends.clock)
    async with cluster(store, backends.clock, *CONTROLLERS, metrics=client, **(gates or {})) as found:
        pod = template("web")
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}} if cpu else {}
        await found.create("deployments", deployment(replicas=replicas, template=pod), "apps")
        await run_pods(found)
        await found.advance(600)  # The pods have started.
        await found.create("horizontalpodautoscalers", autoscaler(**spec), "autoscaling", "v2")
        yield found


def autoscaler(name: str = "web", **spec: Any) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "metadata": {"name": name},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 10, "metrics": [CPU], **spec},
    }


async def run_pods(found: Cluster) -> None:
    """Report all pods as running on the node ``n`` and ready since now."""
    await found.run_pods()
    for pod in found.pods():
        if not pod["spec"].get("nodeName"):
            pod["spec"]["nodeName"] = "n"
            pod["status"]["startTime"] = objects.format_time(found.clock.wall())
            found.store.put("core/pods", pod)
    await found.rest()


async def evaluate(found: Cluster) -> None:
    """Wait until the next evaluation has completed."""
    await found.advance(15.1)
    await run_pods(found)


def size(found: Cluster) -> int:
    return int(found.read(DEPLOYMENTS, WEB)["spec"].get("replicas", 0))


def conditions(found: Cluster, name: str = "web") -> Mapping[str, tuple[str, str]]:
    status = found.read(AUTOSCALERS, f"default/{name}")["status"]
    return {item["type"]: (item["status"], item["reason"]) for item in status["conditions"]}


async def test_load_above_the_target_adds_pods(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 80
    async with autoscaled(store, metrics) as found:
        assert size(found) == 4  # 80 % of the requests is 1.6 times the target.
        status = found.read(AUTOSCALERS, WEB)["status"]
        notes = found.notes()
        assert conditions(found) == {
            "AbleToScale": ("True", "SucceededRescale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
        }
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 4)
    assert status["currentMetrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 80, "averageValue": "80m"}}}
    ]
    assert "lastScaleTime" in status
    assert "New size: 4; reason: cpu resource utilization (percentage of request) above target" in notes


async def test_pods_are_removed_after_five_minutes_of_low_load(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 50
    async with autoscaled(store, metrics, 4) as found:
        metrics.millicores = 10
        for _ in range(10):
            await evaluate(found)
        assert size(found) == 4
        assert conditions(found)["AbleToScale"] == ("True", "ScaleDownStabilized")
        for _ in range(12):
            await evaluate(found)
        assert size(found) == 1
        assert "New size: 1; reason: All metrics below target" in found.notes()


async def test_size_is_kept_within_minimum_and_maximum(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    async with autoscaled(store, metrics, 2, minReplicas=3) as found:
        assert size(found) == 3
        assert "New size: 3; reason: Current number of replicas below Spec.MinReplicas" in found.notes()
        metrics.millicores = 1000
        for _ in range(3):
            await evaluate(found)
        assert size(found) == 10
        await evaluate(found)
        assert conditions(found)["ScalingLimited"] == ("True", "TooManyReplicas")
        await found.change(AUTOSCALERS, WEB, maxReplicas=5)
        assert size(found) == 5


async def test_deployment_of_size_zero_is_not_scaled(store: MeteredStore) -> None:
    async with autoscaled(store, Metrics(FakeClock()), 0) as found:
        assert size(found) == 0
        assert conditions(found)["ScalingActive"] == ("False", "ScalingDisabled")


async def test_missing_target_is_reported(store: MeteredStore) -> None:
    async with autoscaled(store, Metrics(FakeClock())) as found:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
        await found.create("horizontalpodautoscalers", autoscaler("o", scaleTargetRef=reference), "autoscaling", "v2")
        assert conditions(found, "o") == {"AbleToScale": ("False", "FailedGetScale")}
        assert 'deployments/scale.apps "other" not found' in found.notes()
        reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t"}
        await found.create("horizontalpodautoscalers", autoscaler("t", scaleTargetRef=reference), "autoscaling", "v2")
        text = 'no matches for kind "Thing" in version "example.com/v1"'
        assert f"unable to determine resource for scale target reference: {text}" in found.notes()


async def test_pods_without_requests_are_reported(store: MeteredStore) -> None:
    async with autoscaled(store, Metrics(FakeClock()), cpu=None) as found:
        assert conditions(found)["ScalingActive"] == ("False", "FailedGetResourceMetric")
        problem = "failed to get cpu utilization: missing request for cpu in container c of Pod web-"
        assert any(f"failed to get cpu resource metric value: {problem}" in note for note in found.notes())


async def test_agents_that_do_not_respond_are_reported(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.node_status = 500
    async with autoscaled(store, metrics) as found:
        assert size(found) == 2
        message = found.read(AUTOSCALERS, WEB)["status"]["conditions"][1]["message"]
        assert "unable to fetch metrics from node agents: node n: unexpected status 500" in message


async def test_resource_metrics_api_takes_precedence_over_agents(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.documents["metrics.k8s.io/v1beta1"] = {"items": []}
    async with autoscaled(store, metrics) as found:
        assert conditions(found)["ScalingActive"] == ("False", "FailedGetResourceMetric")
        time = objects.format_time(found.clock.wall())
        metrics.documents["metrics.k8s.io/v1beta1"] = {
            "items": [
                {
                    "metadata": {"name": pod["metadata"]["name"]},
                    "timestamp": time,
                    "window": "15.5s",
                    "containers": [{"name": "c", "usage": {"cpu": "100m"}}],
                }
                for pod in found.pods()
            ]
        }
        await evaluate(found)
        assert size(found) == 4
    assert not any(path.startswith("/stats") for path in metrics.requests)
    assert "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods?labelSelector=app%3Dweb" in metrics.requests


async def test_custom_and_external_metrics_are_evaluated(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    time = objects.format_time(metrics.clock.wall())
    described = {"apiVersion": "v1", "kind": "Service", "name": "web"}
    value = {"describedObject": {"name": "web"}, "value": "30", "timestamp": time}
    metrics.documents["custom.metrics.k8s.io/v1beta1"] = {"items": [value]}
    metrics.documents["external.metrics.k8s.io/v1beta1"] = {"items": [{"value": "10"}, {"value": "40"}]}
    chosen = [
        {
            "type": "Object",
            "object": {
                "describedObject": described,
                "metric": {"name": "rate"},
                "target": {"type": "Value", "value": "20"},
            },
        },
        {
            "type": "External",
            "external": {"metric": {"name": "depth"}, "target": {"type": "AverageValue", "averageValue": "15"}},
        },
    ]
    async with autoscaled(store, metrics, metrics=chosen) as found:
        await evaluate(found)
        status = found.read(AUTOSCALERS, WEB)["status"]
        assert size(found) == 4  # 50 / 15 from the external metric; the object requires 3.
        assert any("external metric depth() above target" in note for note in found.notes())
    current = [item[item["type"].lower()]["current"] for item in status["currentMetrics"]]
    assert current == [{"value": "30"}, {"averageValue": "12500m"}]
    assert "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/services/web/rate" in metrics.requests


async def test_one_failed_metric_does_not_remove_pods(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 10
    pods = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
    async with autoscaled(store, metrics, 4, metrics=[CPU, pods]) as found:
        for _ in range(25):
            await evaluate(found)
        assert size(found) == 4
        assert conditions(found)["ScalingActive"] == ("False", "FailedGetPodsMetric")
        assert any("unable to fetch metrics from custom metrics API" in note for note in found.notes())


async def test_two_autoscalers_of_the_same_pods_do_not_scale_them(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 50
    async with autoscaled(store, metrics) as found:
        await found.create("horizontalpodautoscalers", autoscaler("second"), "autoscaling", "v2")
        metrics.millicores = 100
        await evaluate(found)
        assert size(found) == 2
        assert conditions(found)["ScalingActive"] == ("False", "AmbiguousSelector")
        await found.delete(AUTOSCALERS, WEB)
        await evaluate(found)
        assert size(found) == 4
        assert conditions(found, "second")["ScalingActive"] == ("True", "ValidMetricFound")


async def test_autoscaler_of_version_1_is_processed(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 80
    async with autoscaled(store, metrics, maxReplicas=2) as found:
        await found.delete(AUTOSCALERS, WEB)
        spec = {"scaleTargetRef": autoscaler()["spec"]["scaleTargetRef"], "maxReplicas": 3}
        old = {"metadata": {"name": "web"}, "spec": {**spec, "targetCPUUtilizationPercentage": 40}}
        await found.create("horizontalpodautoscalers", old, "autoscaling", "v1")
        assert size(found) == 3
        assert conditions(found)["ScalingLimited"] == ("True", "TooManyReplicas")
        obj = found.read(AUTOSCALERS, WEB)
    assert obj["apiVersion"] == "autoscaling/v2"
    assert obj["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 40}


@pytest.mark.parametrize(("enabled", "replicas", "active"), [(True, 4, "True"), (False, 2, "False")])
async def test_gate_enables_metrics_of_containers(
    store: MeteredStore, *, enabled: bool, replicas: int, active: str
) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 80
    chosen = {"type": "ContainerResource", "containerResource": {**CPU["resource"], "container": "c"}}
    async with autoscaled(store, metrics, metrics=[chosen], gates={"HPAContainerMetrics": enabled}) as found:
        assert size(found) == replicas
        assert conditions(found)["ScalingActive"][0] == active


async def test_tolerance_of_the_behavior_takes_effect(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 52
    rules = {"policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}], "tolerance": "0.01"}
    async with autoscaled(store, metrics, behavior={"scaleUp": rules}) as found:
        assert size(found) == 2
    async with autoscaled(
        MeteredStore(),
        metrics,
        behavior={"scaleUp": rules},
        gates={"HPAConfigurableTolerance": True, "release": NEWEST},
    ) as found:
        assert size(found) == 3


async def test_status_remains_if_the_target_is_deleted(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 80
    async with autoscaled(store, metrics) as found:
        before = found.read(AUTOSCALERS, WEB)["status"]
        await found.delete(DEPLOYMENTS, WEB)
        await evaluate(found)
        after = found.read(AUTOSCALERS, WEB)["status"]
    numbers = ("currentReplicas", "desiredReplicas", "lastScaleTime")
    assert [after[name] for name in numbers] == [2, 4, before["lastScaleTime"]]
    times = [{item["type"]: item["lastTransitionTime"] for item in obj["conditions"]} for obj in (before, after)]
    assert times[0]["ScalingActive"] == times[1]["ScalingActive"]
    assert times[0]["AbleToScale"] < times[1]["AbleToScale"]


async def test_metrics_are_evaluated_at_the_maximum(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 50
    async with autoscaled(store, metrics, maxReplicas=2) as found:
        assert conditions(found)["ScalingActive"] == ("True", "ValidMetricFound")
        await evaluate(found)
        first = found.read(AUTOSCALERS, WEB)["status"]["conditions"]
        await evaluate(found)
        assert found.read(AUTOSCALERS, WEB)["status"]["conditions"] == first


async def test_first_of_equal_metrics_is_the_reason(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.documents["external.metrics.k8s.io/v1beta1"] = {"items": [{"value": "40"}]}

    def external(name: str) -> Object:
        target = {"type": "AverageValue", "averageValue": "10"}
        return {"type": "External", "external": {"metric": {"name": name}, "target": target}}

    async with autoscaled(store, metrics, metrics=[external("a"), external("b")]) as found:
        assert size(found) == 4
        assert "New size: 4; reason: external metric a() above target" in found.notes()


async def test_failed_metric_does_not_matter_at_the_target(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 50
    pods = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
    async with autoscaled(store, metrics, metrics=[CPU, pods]) as found:
        assert conditions(found)["ScalingActive"] == ("True", "ValidMetricFound")


async def test_only_selected_pods_of_the_namespace_are_measured(store: MeteredStore) -> None:
    metrics = Metrics(FakeClock())
    metrics.millicores = 80
    for namespace, label in (("default", "other"), ("other", "web")):
        pod = {"metadata": {"name": "x", "namespace": namespace, "uid": f"{namespace}-x", "labels": {"app": label}}}
        spec = {"nodeName": "n", "containers": [{"name": "without-request"}]}
        store.put("core/pods", {**pod, "spec": spec, "status": {"phase": "Running"}})
    async with autoscaled(store, metrics) as found:
        assert size(found) == 4


@pytest.mark.parametrize(
    ("described", "path"),
    [
        ({"kind": "Service", "name": "web"}, "namespaces/default/services/web"),
        ({"apiVersion": "example.com/v1", "kind": "Thing", "name": "t"}, "namespaces/default/things.example.com/t"),
        ({"apiVersion": "v1", "kind": "Node", "name": "n"}, "nodes/n"),
    ],
)
async def test_metric_of_an_object_determines_the_size(store: MeteredStore, described: Object, path: str) -> None:
    metrics = Metrics(FakeClock())
    metrics.documents["custom.metrics.k8s.io/v1beta1"] = {"items": [{"value": "30"}]}
    target = {"type": "Value", "value": "20"}
    source = {"describedObject": described, "metric": {"name": "rate"}, "target": target}
    async with autoscaled(store, metrics, metrics=[{"type": "Object", "object": source}]) as found:
        assert size(found) == 3
    assert f"/apis/custom.metrics.k8s.io/v1beta1/{path}/rate" in metrics.requests
