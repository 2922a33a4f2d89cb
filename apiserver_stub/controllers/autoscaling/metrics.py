"""Metrics for autoscalers: those of pods, of other objects, and of systems outside of the cluster.

The usage of resources comes from the API ``metrics.k8s.io``, if an extension server serves it, and otherwise from the
node agents. Custom and external metrics require an extension server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.autoscaling.pod_groups import CPU, PodMetric
from nodeagent.base.duration import parse_duration
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.controllers.views import PodView
    from nodeagent.base.aio import Clock
    from nodeagent.base.identity import Identity

ReadApi = Callable[[str, str, str], Awaitable[Any]]
"""Returns the JSON document at a path of an API group and version that an extension server serves.

:raises LookupError: no extension server serves it.
:raises MetricsError: it cannot be read.
"""
ReadNode = Callable[[str, str], Awaitable[tuple[int, bytes]]]
"""Returns status and body of the response of a node's agent at a path.

:raises ApiError: the agent cannot be reached.
"""
_SUMMARY = "/stats/summary?only_cpu_and_memory=true"
_SUMMARY_SECONDS = 10.0
"""Time for which the statistics of a node are used again."""
_WINDOW_SECONDS = 15.0
"""Time over which agents measure the CPU usage, at most."""
_AT_ONCE = 8


class MetricsError(Exception):
    """Metrics cannot be read."""


class ObjectMetric(Struct, frozen=True):
    """Metric of one object, in thousandths."""

    value: int


class MetricsClient:
    """Reader of metrics.

    :param read_api: ``None`` without extension servers.
    :param read_node: ``None`` without node agents.
    """

    def __init__(self, read_api: ReadApi | None, read_node: ReadNode | None, identity: Identity, clock: Clock) -> None:
        self._read_api, self._read_node, self._identity, self._clock = read_api, read_node, identity, clock
        self._summaries: dict[str, tuple[float, Mapping[str, Object]]] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def of_resource(
        self, namespace: str, selector: str, resource: str, pods: Iterable[PodView], container: str = ""
    ) -> Mapping[str, PodMetric]:
        """Return the usage of *resource* by the pods that *selector* selects, by name.

        :param pods: the same pods.
        :param container: measure only this container of each pod.
        :raises MetricsError: no pod has metrics.
        """
        try:
            found = await self._from_api(namespace, selector, resource, container)
        except LookupError:
            found = await self._from_agents(pods, resource, container)
        if not found:
            raise MetricsError("no metrics returned from resource metrics API")
        return found

    async def of_pods(
        self, namespace: str, selector: str, metric: str, metric_selector: str
    ) -> Mapping[str, PodMetric]:
        """Return the custom *metric* of the pods that *selector* selects, by name.

        :raises MetricsError: no pod has the metric.
        """
        query = {"labelSelector": selector, "metricLabelSelector": metric_selector}
        items = await self._custom(f"/namespaces/{quote(namespace)}/pods/*/{quote(metric)}", query)
        with _checked():
            return {
                item["describedObject"]["name"]: PodMetric(
                    _milli(item["value"]), _time(item.get("timestamp")), float(item.get("windowSeconds") or 0)
                )
                for item in items
            }

    async def of_object(
        self, namespace: str, resource: str, name: str, metric: str, metric_selector: str
    ) -> ObjectMetric:
        """Return the custom *metric* of an object.

        :param resource: plural and group of its kind, separated by a dot; the group ``core`` has no name.
        :raises MetricsError: the object has no such metric.
        """
        path = f"/{quote(resource)}/{quote(name)}/{quote(metric)}"
        if namespace:
            path = f"/namespaces/{quote(namespace)}{path}"
        items = await self._custom(path, {"metricLabelSelector": metric_selector})
        with _checked():
            return ObjectMetric(_milli(items[0]["value"]))

    async def external(self, namespace: str, metric: str, selector: str) -> Sequence[int]:
        """Return the values of an external *metric*, in thousandths.

        :raises MetricsError: there is no such metric.
        """
        path = f"/namespaces/{quote(namespace)}/{quote(metric)}"
        items = await self._items("external", ("v1beta1",), path, {"labelSelector": selector})
        with _checked():
            return [_milli(item["value"]) for item in items]

    async def _custom(self, path: str, query: Mapping[str, str]) -> Sequence[Object]:
        return await self._items("custom", ("v1beta2", "v1beta1"), path, query)

    async def _items(self, name: str, versions: Sequence[str], path: str, query: Mapping[str, str]) -> Sequence[Object]:
        """Return the items of a list of the API group for *name* metrics.

        :raises MetricsError: the group is not served, or the list is empty.
        """
        group = self._identity.group(f"{name}.metrics")
        parameters = urlencode({key: value for key, value in query.items() if value})
        for version in versions:
            try:
                found = await self._document(group, version, f"{path}?{parameters}" if parameters else path)
            except LookupError:
                continue
            except MetricsError as error:
                raise MetricsError(f"unable to fetch metrics from {name} metrics API: {error}") from error
            items: Sequence[Object] = found.get("items") or ()
            if not items:
                raise MetricsError(f"no metrics returned from {name} metrics API")
            return items
        text = f"the server could not find the requested resource (group {group})"
        raise MetricsError(f"unable to fetch metrics from {name} metrics API: {text}")

    async def _document(self, group: str, version: str, path: str) -> Object:
        if self._read_api is None:
            raise LookupError(group)
        found = await self._read_api(group, version, f"/apis/{group}/{version}{path}")
        if not isinstance(found, dict):
            raise MetricsError("the response is not an object")
        return found

    async def _from_api(self, namespace: str, selector: str, resource: str, container: str) -> dict[str, PodMetric]:
        path = f"/namespaces/{quote(namespace)}/pods?{urlencode({'labelSelector': selector})}"
        try:
            document = await self._document(self._identity.group("metrics"), "v1beta1", path)
        except MetricsError as error:
            raise MetricsError(f"unable to fetch metrics from resource metrics API: {error}") from error
        with _checked():
            return dict(_usages(document.get("items") or (), resource, container))

    async def _from_agents(self, pods: Iterable[PodView], resource: str, container: str) -> dict[str, PodMetric]:
        """Return the usage by the statistics of the agents; pods of nodes that do not respond have none."""
        by_node: dict[str, list[PodView]] = {}
        for pod in pods:
            if pod.spec.node_name:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        summaries = await asyncio.gather(*(self._summary(node) for node in by_node), return_exceptions=True)
        found, problems = {}, []
        for items, summary in zip(by_node.values(), summaries, strict=True):
            if isinstance(summary, MetricsError):
                problems.append(summary)
                continue
            if isinstance(summary, BaseException):
                raise summary
            for pod in items:
                try:
                    metric = _usage(summary.get(pod.metadata.uid) or {}, resource, container)
                except (TypeError, ValueError, AttributeError) as error:
                    problems.append(MetricsError(f"node {pod.spec.node_name}: invalid statistics: {error}"))
                    continue
                if metric is not None:
                    found[pod.metadata.name] = metric
        if problems and not found:
            raise MetricsError(f"unable to fetch metrics from node agents: {problems[0]}")
        return found

    async def _summary(self, node: str) -> Mapping[str, Object]:
        """Return the statistics of the pods of a node by UID.

        :raises MetricsError: they cannot be read.
        """
        async with self._at_once:
            now = self._clock.now()
            for name in [name for name, (at, _) in self._summaries.items() if now - at > _SUMMARY_SECONDS]:
                del self._summaries[name]
            if node in self._summaries:
                return self._summaries[node][1]
            if self._read_node is None:
                raise MetricsError(f"node {node}: no agents")
            try:
                status, body = await self._read_node(node, _SUMMARY)
            except ApiError as error:
                raise MetricsError(f"node {node}: {error.message}") from error
            if status != 200:
                raise MetricsError(f"node {node}: unexpected status {status}")
            try:
                document = msgspec.json.decode(body)
                found = {item["podRef"]["uid"]: item for item in document.get("pods") or ()}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise MetricsError(f"node {node}: invalid statistics: {error}") from error
            self._summaries[node] = now, found
            return found


@contextlib.contextmanager
def _checked() -> Iterator[None]:
    """Report a response of another form than that of metrics.

    :raises MetricsError: an operation on the response failed.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise MetricsError(f"invalid metrics: {error!r}") from error


def _usages(items: Iterable[Object], resource: str, container: str) -> Iterator[tuple[str, PodMetric]]:
    """Yield the names of pods with their metrics, without those whose usage is not known."""
    for item in items:
        usages = [
            dig(each, ("usage", resource))
            for each in item.get("containers") or ()
            if not container or each.get("name") == container
        ]
        if usages and None not in usages:
            total, window = sum(_milli(usage) for usage in usages), _seconds(item.get("window"))
            yield item["metadata"]["name"], PodMetric(total, _time(item.get("timestamp")), window)


def _usage(pod: Object, resource: str, container: str) -> PodMetric | None:
    """Return the usage of a pod by its statistics, ``None`` if that of a container is not known."""
    kind, name, scale = ("cpu", "usageNanoCores", 10**6) if resource == CPU else (resource, "workingSetBytes", 0)
    total, times = 0, []
    for item in pod.get("containers") or ():
        if container and item.get("name") != container:
            continue
        value, time = dig(item, (kind, name)), parse_time(dig(item, (kind, "time")))
        if value is None or time is None:
            return None
        total += -(-value // scale) if scale else value * 1000
        times.append(time)
    return PodMetric(total, min(times), _WINDOW_SECONDS) if times else None


def _milli(quantity: Any) -> int:
    try:
        return Quantity.parse(str(quantity)).milli_value()
    except ValueError as error:
        raise MetricsError(f"invalid quantity {quantity!r}") from error


def _time(text: Any) -> datetime:
    time = parse_time(text)
    if time is None:
        raise MetricsError(f"invalid time {text!r}")
    return time


def _seconds(text: Any) -> float:
    try:
        return parse_duration(str(text)).seconds if text else 0.0
    except ValueError as error:
        raise MetricsError(f"invalid duration {text!r}") from error
