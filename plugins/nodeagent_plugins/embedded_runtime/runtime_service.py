"""CRI RuntimeService."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from nodeagent import __version__
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import __name__ as _package
from nodeagent_plugins.embedded_runtime import cri_responses
from nodeagent_plugins.embedded_runtime.cgroups import Usage
from nodeagent_plugins.embedded_runtime.containers import Containers
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, Unimplemented
from nodeagent_plugins.embedded_runtime.events import Events
from nodeagent_plugins.embedded_runtime.execution import Execution
from nodeagent_plugins.embedded_runtime.network import Network
from nodeagent_plugins.embedded_runtime.records import Container, Sandbox
from nodeagent_plugins.embedded_runtime.sandboxes import Sandboxes
from nodeagent_plugins.embedded_runtime.streaming import StreamingServer

RUNTIME_NAME = "nodeagent-embedded"
API_VERSION = "v1"


class RuntimeService:
    """Implements the calls with the components of the runtime."""

    def __init__(
        self,
        sandboxes: Sandboxes,
        containers: Containers,
        execution: Execution,
        streaming: StreamingServer,
        network: Network,
        events: Events,
    ) -> None:
        self._sandboxes, self._containers, self._execution = sandboxes, containers, execution
        self._streaming, self._network, self._events = streaming, network, events

    # --- the runtime itself -----------------------------------------------------------------------------------

    async def version(self, _request: cri.VersionRequest) -> cri.VersionResponse:
        return cri.VersionResponse(
            version="0.1.0",
            runtime_name=RUNTIME_NAME,
            runtime_version=__version__,
            runtime_api_version=API_VERSION,
        )

    async def status(self, request: cri.StatusRequest) -> cri.StatusResponse:
        conditions = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        info = {}
        if request.verbose:
            info = {"runner": self._containers.runner.name, "network": type(self._network).__name__, "module": _package}
            info["config"] = json.dumps({"enableCDI": True, "cdiSpecDirs": list(self._containers.cdi_directories)})
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            info=info,
            runtime_handlers=[cri.RuntimeHandler(features=self._containers.handler_features())],
            features=cri.RuntimeFeatures(supplemental_groups_policy=True),
        )

    async def runtime_config(self, _request: cri.RuntimeConfigRequest) -> cri.RuntimeConfigResponse:
        return cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS))

    async def update_runtime_config(self, request: cri.UpdateRuntimeConfigRequest) -> cri.UpdateRuntimeConfigResponse:
        if subnet := request.runtime_config.network_config.pod_cidr:
            self._network.set_subnet(subnet)
        return cri.UpdateRuntimeConfigResponse()

    # --- sandboxes --------------------------------------------------------------------------------------------

    async def run_pod_sandbox(self, request: cri.RunPodSandboxRequest) -> cri.RunPodSandboxResponse:
        return cri.RunPodSandboxResponse(
            pod_sandbox_id=await self._sandboxes.run(request.config, request.runtime_handler)
        )

    async def stop_pod_sandbox(self, request: cri.StopPodSandboxRequest) -> cri.StopPodSandboxResponse:
        sandbox = self._sandboxes.records.find(request.pod_sandbox_id)
        if sandbox is not None:
            await asyncio.gather(*(self._containers.stop(c, 0) for c in self._containers.of(sandbox.id)))
            await self._sandboxes.stop(sandbox)
        return cri.StopPodSandboxResponse()

    async def remove_pod_sandbox(self, request: cri.RemovePodSandboxRequest) -> cri.RemovePodSandboxResponse:
        sandbox = self._sandboxes.records.find(request.pod_sandbox_id)
        if sandbox is not None:
            await asyncio.gather(*(self._containers.remove(c) for c in self._containers.of(sandbox.id)))
            await self._sandboxes.stop(sandbox)
            await self._sandboxes.remove(sandbox)
        return cri.RemovePodSandboxResponse()

    async def pod_sandbox_status(self, request: cri.PodSandboxStatusRequest) -> cri.PodSandboxStatusResponse:
        sandbox = self._sandboxes.records.get(request.pod_sandbox_id)
        info = {}
        if request.verbose and sandbox.holder is not None:
            info = {"pid": str(sandbox.holder.pid), "namespaces": ",".join(sandbox.namespaces)}
        statuses = map(cri_responses.container_status, self._containers.of(sandbox.id))
        return cri.PodSandboxStatusResponse(
            status=cri_responses.sandbox_status(sandbox),
            info=info,
            containers_statuses=statuses,
            timestamp=time.time_ns(),
        )

    async def list_pod_sandbox(self, request: cri.ListPodSandboxRequest) -> cri.ListPodSandboxResponse:
        items = [
            cri_responses.sandbox(sandbox)
            for sandbox in self._sandboxes.records.all()
            if sandbox.id.startswith(request.filter.id)
            and _has_labels(sandbox.config.labels, request.filter.label_selector)
        ]
        if request.filter.HasField("state"):
            items = [item for item in items if item.state == request.filter.state.state]
        return cri.ListPodSandboxResponse(items=items)

    # --- containers -------------------------------------------------------------------------------------------

    async def create_container(self, request: cri.CreateContainerRequest) -> cri.CreateContainerResponse:
        sandbox = self._sandboxes.records.get(request.pod_sandbox_id)
        return cri.CreateContainerResponse(container_id=await self._containers.create(sandbox, request.config))

    async def start_container(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        await self._containers.start(self._container(request))
        return cri.StartContainerResponse()

    async def stop_container(self, request: cri.StopContainerRequest) -> cri.StopContainerResponse:
        if (container := self._containers.records.find(request.container_id)) is not None:
            await self._containers.stop(container, request.timeout)
        return cri.StopContainerResponse()

    async def remove_container(self, request: cri.RemoveContainerRequest) -> cri.RemoveContainerResponse:
        if (container := self._containers.records.find(request.container_id)) is not None:
            await self._containers.remove(container)
        return cri.RemoveContainerResponse()

    async def list_containers(self, request: cri.ListContainersRequest) -> cri.ListContainersResponse:
        requested = request.filter
        containers = [
            cri_responses.container(container)
            for container in self._containers.records.all()
            if container.id.startswith(requested.id)
            and container.sandbox_id.startswith(requested.pod_sandbox_id)
            and (not requested.HasField("state") or container.state == requested.state.state)
            and _has_labels(container.config.labels, requested.label_selector)
        ]
        return cri.ListContainersResponse(containers=containers)

    async def container_status(self, request: cri.ContainerStatusRequest) -> cri.ContainerStatusResponse:
        container = self._container(request)
        info = {}
        if request.verbose and container.process is not None:
            info = {"pid": str(container.process.pid), "runner": self._containers.runner.name}
        return cri.ContainerStatusResponse(status=cri_responses.container_status(container), info=info)

    async def update_container_resources(
        self, request: cri.UpdateContainerResourcesRequest
    ) -> cri.UpdateContainerResourcesResponse:
        await self._containers.update(self._container(request), request.linux)
        return cri.UpdateContainerResourcesResponse()

    async def reopen_container_log(self, request: cri.ReopenContainerLogRequest) -> cri.ReopenContainerLogResponse:
        await self._containers.reopen_log(self._container(request))
        return cri.ReopenContainerLogResponse()

    # --- inside containers ------------------------------------------------------------------------------------

    async def exec_sync(self, request: cri.ExecSyncRequest) -> cri.ExecSyncResponse:
        done = await self._execution.run(self._container(request), list(request.cmd), request.timeout)
        return cri.ExecSyncResponse(stdout=done.output, stderr=done.errors, exit_code=done.exit_code)

    async def exec(self, request: cri.ExecRequest) -> cri.ExecResponse:
        self._running(request)
        return cri.ExecResponse(url=await self._streaming.offer("exec", request))

    async def attach(self, request: cri.AttachRequest) -> cri.AttachResponse:
        self._running(request)
        return cri.AttachResponse(url=await self._streaming.offer("attach", request))

    async def port_forward(self, request: cri.PortForwardRequest) -> cri.PortForwardResponse:
        if not self._sandboxes.records.get(request.pod_sandbox_id).ready:
            raise FailedPrecondition(f"sandbox {request.pod_sandbox_id} is not ready")
        return cri.PortForwardResponse(url=await self._streaming.offer("portforward", request))

    async def checkpoint_container(self, _request: cri.CheckpointContainerRequest) -> None:
        raise Unimplemented("checkpoints of containers are not supported by this runtime")

    # --- usage ------------------------------------------------------------------------------------------------

    async def container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        stats = await asyncio.to_thread(self._stats, self._container(request))
        return cri.ContainerStatsResponse(stats=stats)

    async def list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        requested = request.filter
        containers = [
            container
            for container in self._containers.records.all()
            if container.running
            and container.id.startswith(requested.id)
            and container.sandbox_id.startswith(requested.pod_sandbox_id)
            and _has_labels(container.config.labels, requested.label_selector)
        ]
        stats = await asyncio.to_thread(lambda: [self._stats(container) for container in containers])
        return cri.ListContainerStatsResponse(stats=stats)

    async def pod_sandbox_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        sandbox = self._sandboxes.records.get(request.pod_sandbox_id)
        return cri.PodSandboxStatsResponse(stats=await asyncio.to_thread(self._sandbox_stats, sandbox))

    async def list_pod_sandbox_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        sandboxes = [
            sandbox
            for sandbox in self._sandboxes.records.all()
            if sandbox.ready
            and sandbox.id.startswith(request.filter.id)
            and _has_labels(sandbox.config.labels, request.filter.label_selector)
        ]
        stats = await asyncio.to_thread(lambda: [self._sandbox_stats(sandbox) for sandbox in sandboxes])
        return cri.ListPodSandboxStatsResponse(stats=stats)

    async def list_metric_descriptors(self, _request: Any) -> cri.ListMetricDescriptorsResponse:
        return cri.ListMetricDescriptorsResponse()

    async def list_pod_sandbox_metrics(self, _request: Any) -> cri.ListPodSandboxMetricsResponse:
        return cri.ListPodSandboxMetricsResponse()

    # --- events -----------------------------------------------------------------------------------------------

    async def get_container_events(self, _request: cri.GetEventsRequest) -> AsyncIterator[cri.ContainerEventResponse]:
        async with contextlib.aclosing(self._events.listen()) as events:
            async for event in events:
                yield event

    # --- helpers ----------------------------------------------------------------------------------------------

    def _container(self, request: Any) -> Container:
        return self._containers.records.get(request.container_id)

    def _running(self, request: Any) -> Container:
        container = self._container(request)
        if not container.running:
            raise FailedPrecondition(f"container {container.id} is not running")
        return container

    def _stats(self, container: Container) -> cri.ContainerStats:
        usage = self._containers.usage(container) if container.running else Usage()
        directory = self._containers.records.directory(container.id)
        return cri_responses.container_stats(container, usage, self._containers.written(container), str(directory))

    def _sandbox_stats(self, sandbox: Sandbox) -> cri.PodSandboxStats:
        containers = [container for container in self._containers.of(sandbox.id) if container.running]
        usages = [self._containers.usage(container) for container in containers]
        total = Usage(*(sum(getattr(usage, name) for usage in usages) for name in Usage.__dataclass_fields__))
        network = {}
        if sandbox.holder is not None and "net" in sandbox.namespaces:
            network = read_interfaces(sandbox.holder.pid)
        return cri_responses.sandbox_stats(
            sandbox, total, [self._stats(container) for container in containers], network
        )


def read_interfaces(pid: int) -> dict[str, tuple[int, int, int, int]]:
    """Return bytes and errors received and sent by interface of a process's network namespace."""
    found = {}
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    except OSError:
        return {}
    for line in lines:
        name, _, counts = line.partition(":")
        numbers = [int(word) for word in counts.split()]
        if name.strip() != "lo":
            found[name.strip()] = (numbers[0], numbers[2], numbers[8], numbers[10])
    return found


def _has_labels(labels: Mapping[str, str], requested: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in requested.items())
