"""Pods from the API server: those bound to this node, listed once and then watched."""

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
"""A watch that ends sooner without news counts as failed, so that a broken server is not asked in a hurry."""

_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    if context.api is None:
        return []
    return [ApiPodSource(context.api, context.node_name, context.clock, node_known=context.wait_for_node)]


class ApiPodSource:
    """Publishes the pods whose ``spec.nodeName`` is this node.

    After an interruption the watch goes on where it ended; when the server has forgotten that place, the pods are
    listed again. While the server is away the last set stays in force. Each pod is marked with its source, whatever its
    author has written there: a pod that passed for a static one would never be evicted.

    :param node_known: awaited before the first list, because a pod that was admitted long ago is admitted again after
        a start, and must not be refused for labels of the node that are only not known yet.
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
        """Follow changes until the watch ends; return whether it brought anything or at least lived a while."""
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
        """Bring the set up to date; return whether it changed."""
        match event.type:
            case WatchType.ADDED | WatchType.MODIFIED:
                self._pods[event.object.uid] = self._marked(event.object)
                return True
            case WatchType.DELETED:
                return self._pods.pop(event.object.uid, None) is not None
            case _:
                return False

    def _marked(self, pod: Pod) -> Pod:
        """Return *pod* with the marks that it got when it was first seen."""
        marks = pod_source_annotations(self.name, self._clock.wall())
        known = self._pods.get(pod.uid)
        if known is not None and known.metadata.annotations:
            marks = {name: known.metadata.annotations[name] for name in marks}
        replace = msgspec.structs.replace
        return replace(pod, metadata=replace(pod.metadata, annotations={**(pod.metadata.annotations or {}), **marks}))

    def _failed(self, error: ApiError) -> None:
        if not self._failing:
            _log.warning("Cannot follow the pods of this node", extra={"err": str(error)})
        self._failing = True

    def _recovered(self) -> None:
        if self._failing:
            _log.info("Following the pods of this node again")
        self._failing = False


class _Publisher:
    """Publishes the set as it is then, once for all changes that arrive in one turn of the event loop."""

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
