"""Capability ``notifications``."""

from __future__ import annotations

from typing import Any

from nodeagent import hookimpl
from nodeagent.base.plugin_rpc import methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.model.pod import Container, Pod, PodStatus
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.messages import encode, encode_pod

_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Notifications"])


class Notifications:
    """Sends the events of pods, containers and the node."""

    def __init__(self, call: HookCalls) -> None:
        self._call = call

    @hookimpl
    async def nodeagent_pod_admitted(self, pod: Pod) -> None:
        await self._notify("nodeagent_pod_admitted", pod_admitted=api.PodAdmitted(pod=encode_pod(pod)))

    @hookimpl
    async def nodeagent_pod_status_changed(self, pod: Pod, status: PodStatus) -> None:
        event = api.PodStatusChanged(pod=encode_pod(pod), status=encode(status))
        await self._notify("nodeagent_pod_status_changed", pod_status_changed=event)

    @hookimpl
    async def nodeagent_pod_terminated(self, pod: Pod) -> None:
        await self._notify("nodeagent_pod_terminated", pod_terminated=api.PodTerminated(pod=encode_pod(pod)))

    @hookimpl
    async def nodeagent_container_started(self, pod: Pod, container: Container, container_id: str) -> None:
        event = api.ContainerStarted(pod=encode_pod(pod), container_name=container.name, container_id=container_id)
        await self._notify("nodeagent_container_started", container_started=event)

    @hookimpl
    async def nodeagent_container_stopped(self, pod: Pod, container_name: str, container_id: str) -> None:
        event = api.ContainerStopped(pod=encode_pod(pod), container_name=container_name, container_id=container_id)
        await self._notify("nodeagent_container_stopped", container_stopped=event)

    @hookimpl
    async def nodeagent_node_ready_changed(self, ready: bool, message: str) -> None:
        event = api.NodeReadyChanged(ready=ready, message=message)
        await self._notify("nodeagent_node_ready_changed", node_ready_changed=event)

    async def _notify(self, hook: str, **event: Any) -> None:
        await self._call(hook, _METHODS["Notify"], api.NotifyRequest(**event))
