"""``/metrics``: what the agent knows of itself, under the names that dashboards of the field ask for.

Nothing is counted for it that is not counted anyway, and the library is loaded by the first who asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from nodeagent import __version__
from nodeagent.base import identity
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.contracts.server import Reach, Route
from nodeagent.model.pod import Pod
from nodeagent.server.statistics import BUCKETS, Statistics

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_SOURCE = "config.source"


def metrics_routes(context: AgentContext, statistics: Statistics) -> Sequence[Route]:
    """Return the route; ``Accept`` chooses between the text format and OpenMetrics."""

    async def metrics(request: web.Request) -> web.Response:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import choose_encoder

        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Collector(context, statistics))
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    return (Route("GET", "/metrics", metrics, Reach.READ_ONLY, subresources=("metrics",)),)


class _Collector:
    """Turns what is known now into metric families."""

    def __init__(self, context: AgentContext, statistics: Statistics) -> None:
        self._context, self._statistics = context, statistics
        self._prefix = f"{identity.current().component}_"

    def collect(self) -> Iterator[Metric]:
        yield from self._of_node()
        yield from self._of_pods()
        yield from self._of_requests()

    def _of_node(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        node = GaugeMetricFamily(f"{self._prefix}node_name", "The node's name. The count is always 1.", labels=["node"])
        node.add_metric([self._context.node_name], 1)
        yield node
        build = GaugeMetricFamily(
            f"{identity.current().media_domain}_build_info", "Version of this program.", labels=["git_version"]
        )
        build.add_metric([f"v{__version__}"], 1)
        yield build
        gates = GaugeMetricFamily(
            f"{identity.current().media_domain}_feature_enabled",
            "Whether a feature is on, by name and stage.",
            labels=["name", "stage"],
        )
        for gate, on in self._context.gates:
            gates.add_metric([gate.name, gate.stage.value], int(on))
        yield gates

    def _of_pods(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        pods = self._context.pods
        wanted, active = pods.all(), pods.active()
        for name, found, what in (
            ("desired_pods", wanted, "Pods that the sources want."),
            ("active_pods", active, "Pods that were admitted and have not ended."),
        ):
            family = GaugeMetricFamily(f"{self._prefix}{name}", what, labels=["static"])
            for label, count in _by_static(found).items():
                family.add_metric([label], count)
            yield family
        observed = [seen for pod in wanted if (seen := pods.observed(pod.uid)) is not None]
        running = sum(any(sandbox.ready for sandbox in pod.sandboxes) for pod in observed)
        yield GaugeMetricFamily(f"{self._prefix}running_pods", "Pods that have a running sandbox.", value=running)
        states = GaugeMetricFamily(
            f"{self._prefix}running_containers", "Containers by state.", labels=["container_state"]
        )
        for state, count in _by_state(observed).items():
            states.add_metric([state.name.lower()], count)
        yield states

    def _of_requests(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        labels = ["method", "path", "server_type", "long_running"]
        total = CounterMetricFamily(f"{self._prefix}http_requests", "Requests that were answered.", labels=labels)
        for values, count in self._statistics.requests.items():
            total.add_metric(values, count)
        yield total
        yield GaugeMetricFamily(
            f"{self._prefix}http_inflight_requests",
            "Requests that are being answered.",
            value=self._statistics.inflight,
        )
        lengths = HistogramMetricFamily(
            f"{self._prefix}http_requests_duration_seconds", "How long requests took.", labels=labels
        )
        for values, timing in self._statistics.timings.items():
            lengths.add_metric(values, _cumulative(timing.buckets), timing.seconds)
        yield lengths


def _by_static(pods: Iterable[Pod]) -> Counter[str]:
    """Count pods by the label of the field: ``true`` for static ones, else empty."""
    key = identity.current().label(_SOURCE)
    counts = Counter({"": 0, "true": 0})
    counts.update("" if (pod.metadata.annotations or {}).get(key, "api") == "api" else "true" for pod in pods)
    return counts


def _by_state(pods: Iterable[RuntimePod]) -> Counter[ContainerState]:
    counts = Counter(dict.fromkeys(ContainerState, 0))
    counts.update(container.state for pod in pods for container in pod.containers)
    return counts


def _cumulative(buckets: Sequence[int]) -> list[tuple[str, float]]:
    total, found = 0, []
    for bound, count in zip([*map(str, BUCKETS), "+Inf"], buckets, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
