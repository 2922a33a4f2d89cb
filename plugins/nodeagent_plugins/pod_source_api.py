"""API pod source: lists and watches the pods bound to this node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from typing import Any

import msgspec

from nodeagent import hookimpl
from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.nulls import convert
from nodeagent.contracts.api import PODS, Api, WatchEvent, WatchType
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import PodSource, PublishPods
from nodeagent.errors import ApiError, ApiGone
from nodeagent.model.pod import Pod
from nodeagent.model.pod_source_annotations import pod_source_annotations
from nodeagent.model.unknown_fields import unknown_spec_fields

ReportPod = Callable[[Pod, str], None]
_RETRY_SECONDS = (0.8, 30.0)
_SHORT_WATCH_SECONDS = 1.0
"""A watch without events that ends sooner counts as failed, so that a faulty server is not overloaded."""

_log = logging.getLogger(__name__)


@hookimpl
def nodeagent_provide_pod_sources(context: AgentContext) -> Sequence[PodSource]:
    if context.api is None:
        return []

    def report(pod: Pod, note: str) -> None:
        context.recorder.record(pod.reference(), EventType.WARNING, "UnknownPodFields", note)

    source = ApiPodSource(
        context.api, context.node_name, context.clock, node_known=context.wait_for_node, report=report
    )
    return [source]


class ApiPodSource:
    """Publishes the pods whose ``spec.nodeName`` is this node.

    An interrupted watch resumes at its last resource version; if that has expired, the pods are listed again. While the
    server is unavailable the last set remains active. The source annotation of each pod is overwritten, so
    that a pod cannot be disguised as a static one, which is exempt from eviction.

    :param node_known: awaited before the first list, because pods are admitted again after a restart and must not be
     rejected because node labels have not been loaded yet.
    :param report: called with a pod that has unknown fields and the text of an event.
    """

    name = "api"

    def __init__(
        self,
        api: Api,
        node_name: str,
        clock: Clock,
        *,
        node_known: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0),
        report: ReportPod = lambda pod, note: None,
    ) -> None:
        self._api, self._clock, self._node_known = api, clock, node_known
        self._selector = f"spec.nodeName={node_name}"
        self._reader = _Reader(report)
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
        listing = await self._api.list(PODS, into=dict, field_selector=self._selector)
        found = [pod for plain in listing.items if (pod := self._reader.read(plain)) is not None]
        pods = {pod.uid: self._marked(pod) for pod in found}
        self._reader.retain(pods)
        self._pods.clear()
        self._pods.update(pods)
        self._version = listing.resource_version
        self._recovered()

    async def _watch(self, publisher: _Publisher) -> bool:
        """Watch until the watch ends; return whether it had events or lasted for some time."""
        started, news = self._clock.now(), False
        events = self._api.watch(PODS, into=dict, resource_version=self._version, field_selector=self._selector)
        async for event in events:
            self._recovered()
            news = True
            if self._apply(event):
                publisher.soon()
            self._version = event.resource_version or self._version
        return news or self._clock.now() - started > _SHORT_WATCH_SECONDS

    def _apply(self, event: WatchEvent[dict[str, Any]]) -> bool:
        """Update the set; return whether it changed."""
        match event.type:
            case WatchType.ADDED | WatchType.MODIFIED:
                pod = self._reader.read(event.object)
                if pod is None:
                    return False
                self._pods[pod.uid] = self._marked(pod)
                return True
            case WatchType.DELETED:
                uid = event.object.get("metadata", {}).get("uid", "")
                self._reader.forget(uid)
                return self._pods.pop(uid, None) is not None
            case _:
                return False

    def _marked(self, pod: Pod) -> Pod:
        """Return *pod* with the annotations from its first observation, and the same spec unless that has changed."""
        marks, spec = pod_source_annotations(self.name, self._clock.wall()), pod.spec
        known = self._pods.get(pod.uid)
        if known is not None and known.metadata.annotations:
            marks = {name: known.metadata.annotations[name] for name in marks}
        if known is not None and known.spec == spec:
            spec = known.spec
        replace = msgspec.structs.replace
        meta = replace(pod.metadata, annotations={**(pod.metadata.annotations or {}), **marks})
        return replace(pod, metadata=meta, spec=spec)

    def _failed(self, error: ApiError) -> None:
        if not self._failing:
            _log.warning("Failed to watch pods", extra={"err": str(error)})
        self._failing = True

    def _recovered(self) -> None:
        if self._failing:
            _log.info("Pod watch recovered")
        self._failing = False


class _Reader:
    """Decodes pods and reports, once per generation, spec fields that this agent does not recognize.

    They are those of a later release of the API: their effect is unknown, so that the pod is not rejected.
    """

    def __init__(self, report: ReportPod) -> None:
        self._report = report
        self._checked: dict[str, int] = {}
        """Generation of the checked spec by UID."""

    def read(self, plain: Mapping[str, Any]) -> Pod | None:
        """Return the pod in *plain*, its JSON form; ``None`` if it is invalid, which is logged."""
        try:
            pod = convert(plain, Pod)
        except ValueError as error:
            _log.error("Failed to decode object, skipping", extra={"err": str(error)})
            return None
        generation = (plain.get("metadata") or {}).get("generation") or 0
        if self._checked.get(pod.uid) != generation:
            self._checked[pod.uid] = generation
            self._check(pod, plain)
        return pod

    def forget(self, uid: str) -> None:
        """Drop a deleted pod."""
        self._checked.pop(uid, None)

    def retain(self, uids: Container[str]) -> None:
        """Drop the pods that are not in *uids*."""
        self._checked = {uid: generation for uid, generation in self._checked.items() if uid in uids}

    def _check(self, pod: Pod, plain: Mapping[str, Any]) -> None:
        if unknown := unknown_spec_fields(plain):
            fields = ", ".join(field.path for field in unknown)
            _log.warning(
                "Pod has unknown fields, ignoring them",
                extra={"pod": pod.full_name, "podUID": pod.uid, "fields": fields},
            )
            self._report(pod, f"Pod has fields that this node does not recognize and ignores: {fields}")


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
