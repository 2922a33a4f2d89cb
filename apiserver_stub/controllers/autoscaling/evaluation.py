"""Evaluation of one metric of an autoscaler: the number of replicas that it requires, and its status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_labels, format_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.autoscaling import replicas
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from apiserver_stub.controllers.autoscaling.pod_groups import RequestMissing, group_pods, requested
from apiserver_stub.controllers.autoscaling.replicas import NoReplicaCount, Tolerance
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.controllers.views import PodView


class Proposal(Struct, frozen=True):
    """Number of replicas that a metric requires."""

    replicas: int
    metric: str
    """Name of the metric in messages."""
    status: Object
    """Entry of ``status.currentMetrics``."""


class MetricUnavailable(Exception):
    """A metric cannot be evaluated.

    :ivar reason: reason of the condition and of the event.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Scaled(Struct, frozen=True):
    """The scaled object and its pods."""

    namespace: str
    current: int
    """``spec.replicas``."""
    observed: int
    """``status.replicas``."""
    selector: str
    pods: Sequence[PodView]
    read_pod: Callable[[PodView], Object | None]
    """Returns the complete object."""


class Evaluator:
    """Evaluator of the metrics of autoscalers.

    :param resource_of: returns the plural and group of a kind, separated by a dot, and whether it is namespaced.
    """

    def __init__(
        self,
        client: MetricsClient,
        tolerance: Tolerance,
        resource_of: Callable[[str, str], tuple[str, bool]],
        now: datetime,
    ) -> None:
        self._client, self._tolerance, self._resource_of, self._now = client, tolerance, resource_of, now

    async def evaluate(self, metric: Object, scaled: Scaled) -> Proposal:
        """Evaluate *metric*, an entry of ``spec.metrics``.

        :raises MetricUnavailable: it cannot be read, or determines no number of replicas.
        """
        kind = metric.get("type") or ""
        evaluators: Mapping[str, tuple[str, Callable[[Object, Scaled], Awaitable[Proposal]], str, str]] = {
            "Resource": ("resource", self._resource, "FailedGetResourceMetric", "{name} resource metric value"),
            "ContainerResource": (
                "containerResource",
                self._resource,
                "FailedGetContainerResourceMetric",
                "{name} container metric value",
            ),
            "Pods": ("pods", self._pods, "FailedGetPodsMetric", "pods metric value"),
            "Object": ("object", self._object, "FailedGetObjectMetric", "object metric value"),
            "External": ("external", self._external, "FailedGetExternalMetric", "{name} external metric value"),
        }
        if kind not in evaluators:
            raise MetricUnavailable("InvalidMetricSourceType", f'unknown metric source type "{kind}"')
        field, evaluate, reason, subject = evaluators[kind]
        source = metric.get(field) or {}
        try:
            found = await evaluate(source, scaled)
        except (MetricsError, NoReplicaCount, RequestMissing) as error:
            name = source.get("name") or dig(source, ("metric", "name")) or ""
            raise MetricUnavailable(reason, f"failed to get {subject.format(name=name)}: {error}") from error
        return Proposal(found.replicas, found.metric, {"type": kind, field: found.status})

    async def _resource(self, source: Object, scaled: Scaled) -> Proposal:
        name, target, container = source["name"], source["target"], source.get("container", "")
        label = "container resource" if container else "resource"
        identity = {"name": name, "container": container} if container else {"name": name}
        utilization, average = target.get("averageUtilization"), target.get("averageValue")
        subject = f"{name} utilization" if average is None else f"{label} metric"
        try:
            metrics = await self._client.of_resource(scaled.namespace, scaled.selector, name, scaled.pods, container)
        except MetricsError as error:
            text = f"failed to get {subject}: unable to get metrics for resource {name}: {error}"
            raise MetricsError(text) from error
        if average is not None:
            load = replicas.for_average(
                scaled.current, _milli(average), name, metrics, scaled.pods, self._tolerance, self._now
            )
            return Proposal(
                load.replicas, f"{name} {label}", {**identity, "current": {"averageValue": _text(load.average)}}
            )
        if utilization is None:
            raise NoReplicaCount(
                "invalid resource metric source: neither a utilization target nor a value target was set"
            )

        def requests_of(pods: Sequence[PodView]) -> dict[str, int]:
            objects = ((pod.metadata.name, scaled.read_pod(pod)) for pod in pods)
            return {found: requested(obj, name, container) for found, obj in objects if obj is not None}

        try:
            load = replicas.for_utilization(
                scaled.current, utilization, name, metrics, scaled.pods, requests_of, self._tolerance, self._now
            )
        except (NoReplicaCount, RequestMissing) as error:
            raise NoReplicaCount(f"failed to get {subject}: {error}") from error
        current = {"averageUtilization": load.utilization, "averageValue": _text(load.average)}
        shown = f"{name} {label} utilization (percentage of request)"
        return Proposal(load.replicas, shown, {**identity, "current": current})

    async def _pods(self, source: Object, scaled: Scaled) -> Proposal:
        metric = source["metric"]
        metrics = await self._client.of_pods(
            scaled.namespace, scaled.selector, metric["name"], format_selector(metric.get("selector"))
        )
        target = _milli(source["target"]["averageValue"])
        load = replicas.for_average(scaled.current, target, "", metrics, scaled.pods, self._tolerance, self._now)
        status = {"metric": metric, "current": {"averageValue": _text(load.average)}}
        return Proposal(load.replicas, f"pods metric {metric['name']}", status)

    async def _object(self, source: Object, scaled: Scaled) -> Proposal:
        metric, described, target = source["metric"], source["describedObject"], source["target"]
        resource, namespaced = self._resource_of(described.get("apiVersion") or "v1", described["kind"])
        value = (
            await self._client.of_object(
                scaled.namespace if namespaced else "",
                resource,
                described["name"],
                metric["name"],
                format_selector(metric.get("selector")),
            )
        ).value
        count, current = self._for_total(value, target, scaled)
        name = f"{described['kind']} metric {metric['name']}"
        return Proposal(count, name, {"metric": metric, "current": current, "describedObject": described})

    async def _external(self, source: Object, scaled: Scaled) -> Proposal:
        metric, target = source["metric"], source["target"]
        values = await self._client.external(scaled.namespace, metric["name"], format_selector(metric.get("selector")))
        count, current = self._for_total(sum(values), target, scaled)
        labels = format_labels(dig(metric, ("selector", "matchLabels")))
        return Proposal(count, f"external metric {metric['name']}({labels})", {"metric": metric, "current": current})

    def _for_total(self, value: int, target: Object, scaled: Scaled) -> tuple[int, Object]:
        """Return the number of replicas for a value of all pods together, and the current value."""
        if (average := target.get("averageValue")) is not None:
            count = replicas.for_value_per_pod(scaled.observed, value, _milli(average), self._tolerance)
            return count, {"averageValue": _text(-(-value // max(scaled.observed, 1)))}
        groups = group_pods(scaled.pods, {}, "", self._now)
        ready = sum(pod.ready for pod in scaled.pods if pod.metadata.name not in groups.ignored)
        ratio = value / _milli(target["value"])
        return replicas.for_value(scaled.current, ready, ratio, self._tolerance), {"value": _text(value)}


def _milli(quantity: object) -> int:
    return Quantity.parse(str(quantity)).milli_value()


def _text(milli: int) -> str:
    return str(Quantity(nanos=milli * 10**6))
