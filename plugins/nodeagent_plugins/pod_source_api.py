"""API pod source: lists and watches the pods bound to this node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from nodeagent import hookimpl
from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import PODS, Api, WatchEvent, WatchType
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import PodSource, PublishPods
from nodeagent.errors import ApiError, ApiGone
from nodeagent.model.pod import Pod
from nodeagent.model.pod_source_annotations import pod_source_annotations

_RETRY_SECONDS = (0.8, 30.0)
_SHORT_WATCH_SECONDS = 1.0
"""A watch without events that ends sooner counts as failed, so that a faulty server is not overloaded."""

_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    if context.api is None:
        return []
    return [ApiPodSource(context.api, context.node_name, context.clock, node_known=context.wait_for_node)]


class ApiPodSource:
    """Publishes the pods whose ``spec.nodeName`` is this node.

    An interrupted watch resumes at its last resource version; if that has expired, the pods are listed again. While the
    server is unavailable the last set remains active. The source annotation of each pod is overwritten, so
    that a pod cannot be disguised as a static one, which is exempt from eviction.

    :param node_known: awaited before the first list, because pods are admitted again after a restart and must not be
     rejected because node labels have not been loaded yet.
    """

    name = "api"

    def __init__(
        self,
        api: Api,
        node_name: str,
        clock: Clock,
        *,
        node_known: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
    ) -> None:
        self._api, self._clock, self._node_known = api, clock, node_known
        self._selector = f"spec.nodeName={node_name}"
        self._pods: dict[str, Pod] = {}
        self._version = ""
        self._failing = False

    async def run(self, publish: PublishPods) -> None:
        await self._node_known()
        publisher = _Publisher(publish, self._pods)
        backoff = Backoff(*_RETRY_SECONDS, jitter=1.0)
        try:
            while True:
                started, healthy = self._clock.now(), False
                try:
                    if not self._version:
                        await self._list()
                        publisher.publish()
                    healthy = await self._watch(publisher)
                except ApiGone:
                    self._version = ""
                except ApiError as error:
                    self._failed(error)
                if healthy or self._clock.now() - started > _RETRY_SECONDS[1]:
                    backoff.reset()
                if not healthy:
                    await self._clock.sleep(backoff.next())
        finally:
            publisher.close()

    async def _list(self) -> None:
        listing = await self._api.list(PODS, into=Pod, field_selector=self._selector)
        pods = {pod.uid: self._marked(pod) for pod in listing.items}
        self._pods.clear()
        self._pods.update(pods)
        self._version = listing.resource_version
        self._recovered()

    async def _watch(self, publisher: _Publisher) -> bool:
        """Watch until the watch ends; return whether it had events or lasted for some time."""
        started, news = self._clock.now(), False
        events = self._api.watch(PODS, into=Pod, resource_version=self._version, field_selector=self._selector)
        async for event in events:
            self._recovered()
            news = True
            if self._apply(event):
                publisher.soon()
            self._version = event.resource_version or self._version
        return news or self._clock.now() - started > _SHORT_WATCH_SECONDS

    def _apply(self, event: WatchEvent[Pod]) -> bool:
        """Update the set; return whether it changed."""
        match event.type:
            case WatchType.ADDED | WatchType.MODIFIED:
                self._pods[event.object.uid] = self._marked(event.object)
                return True
            case WatchType.DELETED:
                return self._pods.pop(event.object.uid, None) is not None
            case _:
                return False

    def _marked(self, pod: Pod) -> Pod:
        """Return *pod* with the annotations from its first observation."""
        marks = pod_source_annotations(self.name, self._clock.wall())
        known = self._pods.get(pod.uid)
        if known is not None and known.metadata.annotations:
            marks = {name: known.metadata.annotations[name] for name in marks}
        replace = msgspec.structs.replace
        return replace(pod, metadata=replace(pod.metadata, annotations={**(pod.metadata.annotations or {}), **marks}))

    def _failed(self, error: ApiError) -> None:
        if not self._failing:
            _log.warning("Failed to watch pods", extra={"err": str(error)})
        self._failing = True

    def _recovered(self) -> None:
        if self._failing:
            _log.info("Pod watch recovered")
        self._failing = False


class _Publisher:
    """Publishes the current set, once for all changes in one iteration of the event loop."""

    def __init__(self, publish: PublishPods, pods: Mapping[str, Pod]) -> None:
        self._publish, self._pods = publish, pods
        self._due: asyncio.Handle | None = None

    def soon(self) -> None:
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self.publish)

    def publish(self) -> None:
        self.close()
        self._publish(list(self._pods.values()))

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
