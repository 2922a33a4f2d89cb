"""Tests for the metrics that autoscalers read: statistics of agents, and APIs of extension servers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from apiserver_stub.controllers.autoscaling.pod_groups import PodMetric
from apiserver_stub.controllers.views import Metadata, PodSpec, PodView
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock

TIME = "2026-01-01T12:00:00Z"
AT = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Backends:
    """Documents of extension servers by path, and the statistics of agents by node."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.nodes: dict[str, Any] = {}
        self.reads: list[str] = []

    async def read_api(self, group: str, version: str, path: str) -> Any:
        found = next((value for name, value in self.documents.items() if path.startswith(name)), None)
        if found is None:
            raise LookupError(group)
        return found

    async def read_node(self, node: str, path: str) -> tuple[int, bytes]:
        self.reads.append(node)
        pods = self.nodes.get(node)
        return (404, b"") if pods is None else (200, json.dumps({"pods": pods}).encode())


@pytest.fixture
def backends() -> Backends:
    return Backends()


def client(backends: Backends, clock: FakeClock | None = None) -> MetricsClient:
    return MetricsClient(backends.read_api, backends.read_node, Identity(), clock or FakeClock())


def pod(name: str, node: str = "n") -> PodView:
    return PodView(Metadata(name, "ns", uid=name), spec=PodSpec(node))


def stats(uid: str, **containers: Any) -> dict[str, Any]:
    items = [{"name": name, "cpu": usage, "memory": usage} for name, usage in containers.items()]
    return {"podRef": {"uid": uid}, "containers": items}


def usage(nanos: int | None = 10**7, *, time: str | None = TIME, memory: int = 2) -> dict[str, Any]:
    values = {"time": time, "usageNanoCores": nanos, "workingSetBytes": memory}
    return {name: value for name, value in values.items() if value is not None}


async def of_cpu(backends: Backends, *pods: PodView, container: str = "", clock: FakeClock | None = None) -> Any:
    return await client(backends, clock).of_resource("ns", "app=web", "cpu", pods, container)


async def test_usage_of_agents_is_the_sum_of_the_containers(backends: Backends) -> None:
    later = "2026-01-01T12:00:05Z"
    backends.nodes["n"] = [stats("p", a=usage(10**7), b=usage(1, time=later))]
    assert await of_cpu(backends, pod("p"), pod("unassigned", "")) == {"p": PodMetric(11, AT, 15.0)}
    assert await of_cpu(backends, pod("p"), container="a") == {"p": PodMetric(10, AT, 15.0)}
    found = await client(backends).of_resource("ns", "", "memory", [pod("p")])
    assert found["p"].value == 4000


@pytest.mark.parametrize(
    "statistics",
    [
        [stats("p", a=usage(None), b=usage())],
        [stats("p", a=usage(time=None), b=usage())],
        [stats("p")],
        [],
    ],
)
async def test_pods_with_unknown_usage_have_no_metric(backends: Backends, statistics: Any) -> None:
    backends.nodes["n"] = statistics
    with pytest.raises(MetricsError, match=r"^no metrics returned from resource metrics API$"):
        await of_cpu(backends, pod("p"))


async def test_nodes_that_do_not_respond_have_no_metrics(backends: Backends) -> None:
    backends.nodes["n"] = [stats("p", a=usage())]
    found = await of_cpu(backends, pod("p"), pod("q", "other"))
    assert set(found) == {"p"}
    with pytest.raises(MetricsError, match=r"^unable to fetch metrics from node agents: node other: unexpected status"):
        await of_cpu(backends, pod("q", "other"))


async def test_invalid_statistics_of_a_pod_do_not_affect_others(backends: Backends) -> None:
    backends.nodes["n"] = [stats("p", a=usage()), stats("q", a={"time": TIME, "usageNanoCores": "x"})]
    assert set(await of_cpu(backends, pod("p"), pod("q"))) == {"p"}


async def test_statistics_of_a_node_are_read_again_after_ten_seconds(backends: Backends) -> None:
    backends.nodes["n"] = [stats("p", a=usage())]
    clock = FakeClock()
    reader = client(backends, clock)
    for seconds, reads in ((0, 1), (10, 1), (0.1, 2)):
        await clock.advance(seconds)
        await reader.of_resource("ns", "", "cpu", [pod("p")])
        assert len(backends.reads) == reads


async def test_usage_of_the_metrics_api_is_that_of_known_containers(backends: Backends) -> None:
    def item(name: str, *containers: Any, **more: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "timestamp": TIME, "window": "10s", "containers": list(containers), **more}

    a, b = {"name": "a", "usage": {"cpu": "5m"}}, {"name": "b", "usage": {"cpu": "7m"}}
    items = [item("p", a, b), item("unknown", a, {"name": "b", "usage": {}}), item("empty"), item("q", a, window=None)]
    backends.documents["/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods?labelSelector=app%3Dweb"] = {"items": items}

    assert await of_cpu(backends) == {"p": PodMetric(12, AT, 10.0), "q": PodMetric(5, AT, 0.0)}
    assert (await of_cpu(backends, container="b"))["p"] == PodMetric(7, AT, 10.0)
    assert backends.reads == []


async def test_custom_metrics_of_pods_have_a_window(backends: Backends) -> None:
    items = [
        {"describedObject": {"name": "p"}, "value": "2", "timestamp": TIME, "windowSeconds": 60},
        {"describedObject": {"name": "q"}, "value": "3", "timestamp": TIME},
    ]
    path = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/pods/*/rate?labelSelector=app%3Dweb"
    backends.documents[path] = {"items": items}
    found = await client(backends).of_pods("ns", "app=web", "rate", "")
    assert found == {"p": PodMetric(2000, AT, 60.0), "q": PodMetric(3000, AT, 0.0)}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "unable to fetch metrics from external metrics API: the response is not an object"),
        ({"items": []}, "no metrics returned from external metrics API"),
        ({"items": [{"value": "x"}]}, "invalid quantity 'x'"),
        ({"items": [{}]}, "invalid metrics: KeyError('value')"),
    ],
)
async def test_invalid_documents_are_reported(backends: Backends, document: Any, problem: str) -> None:
    backends.documents["/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/depth"] = document
    with pytest.raises(MetricsError) as caught:
        await client(backends).external("ns", "depth", "")
    assert str(caught.value) == problem


async def test_groups_that_are_not_served_are_reported(backends: Backends) -> None:
    text = r"could not find the requested resource \(group custom.metrics.k8s.io\)"
    with pytest.raises(MetricsError, match=text):
        await client(backends).of_object("ns", "services", "web", "rate", "")
    with pytest.raises(MetricsError, match="node n: no agents"):
        await MetricsClient(None, None, Identity(), FakeClock()).of_resource("ns", "", "cpu", [pod("p")])
