"""Capability ``pod_source``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

from nodeagent import hookimpl
from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import PodSource, PublishPods
from nodeagent.errors import ConfigError, PluginError
from nodeagent.model.pod import Pod
from nodeagent.model.static_pod import static_pod
from nodeagent_plugins.external_plugins.session import Session

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["PodSource"])
_MAX_PODS = 1000

_log = logging.getLogger(__name__)


class PodSourceHooks:
    """Provides the plugin's pod source."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @hookimpl
    def nodeagent_provide_pod_sources(self, context: AgentContext) -> Sequence[PodSource]:
        allowed = not context.gates.enabled("PreventStaticPodAPIReferences")
        return (ExternalPodSource(self._session, context.node_name, context.clock, references_allowed=allowed),)


class ExternalPodSource:
    """Publishes the pods of the plugin as static pods; an invalid set is logged and ignored.

    Implements the contract ``PodSource``.
    """

    def __init__(self, session: Session, node_name: str, clock: Clock, *, references_allowed: bool = True) -> None:
        self._session, self._node_name, self._clock = session, node_name, clock
        self._references_allowed = references_allowed
        self.name = session.plugin.name
        self._pods: dict[bytes, Pod] = {}
        """Pods of the last set by content; an unchanged pod keeps the time at which it was first seen."""

    async def run(self, publish: PublishPods) -> None:
        """Watch until cancelled; the last set stays published while the plugin is not connected."""
        backoff, last = Backoff(0.5, 30.0), ""
        while True:
            await self._session.wait_connected()
            try:
                async for pods in self.sets():
                    publish(pods)
                    backoff.reset()
                    last = ""
                problem = "the plugin ended the stream"
            except (PluginError, ConfigError) as error:
                problem = str(error)
            if problem != last:
                _log.error("Failed to watch pods of plugin", extra={"plugin": self.name, "err": problem})
                last = problem
            await self._clock.sleep(backoff.next())

    async def sets(self) -> AsyncIterator[Sequence[Pod]]:
        """Yield the sets of pods until the stream ends.

        :raises ConfigError: a pod is invalid.
        :raises PluginError: the stream failed, or a set is invalid.
        """
        request = api.WatchPodsRequest(node_name=self._node_name)
        async for pods in self._session.stream(_METHODS["WatchPods"], request):
            yield await asyncio.to_thread(self._read, pods)

    def _read(self, pods: Any) -> list[Pod]:
        """Return the pods of a set.

        :raises ConfigError: a pod is invalid.
        :raises PluginError: there are too many pods, or one is not JSON.
        """
        if len(pods.pods) > _MAX_PODS:
            raise PluginError(self.name, f"WatchPods returned {len(pods.pods)} pods, more than {_MAX_PODS}")
        read = {content: self._pods.get(content) or self._convert(content) for content in pods.pods}
        self._pods = read
        return list(read.values())

    def _convert(self, content: bytes) -> Pod:
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise PluginError(self.name, f"WatchPods returned invalid JSON: {error}") from error
        return static_pod(
            plain,
            node_name=self._node_name,
            source=self.name,
            origin=f"plugin:{self.name}",
            seen_at=self._clock.wall(),
            tolerate_everything=True,
            references_allowed=self._references_allowed,
        )
