"""Container runtime over CRI v1."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

from nodeagent.base.aio import Clock
from nodeagent.base.cdi.names import ANNOTATION_PREFIX
from nodeagent.base.cdi.support import CdiSupport, cdi_support
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes
from nodeagent.contracts.runtime import (
    LABEL_POD_UID,
    ContainerConfig,
    ContainerInfo,
    ContainerStats,
    ExecResult,
    LinuxResources,
    RuntimeContainerStatus,
    RuntimeEvent,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    SandboxInfo,
    SandboxStats,
    SandboxStatus,
)
from nodeagent.errors import NotFound, RuntimeFailure, RuntimeTimeout
from nodeagent_plugins.cri import requests, responses
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.errors import UnimplementedError
from nodeagent_plugins.cri.known_features import supports_image_volumes
from nodeagent_plugins.cri.listing import Listing

API_VERSION = "0.1.0"
"""The API version that the client sends; runtimes ignore it."""
_CDI_ANNOTATION = f"{ANNOTATION_PREFIX}nodeagent_devices"


class CriRuntime:
    """:class:`~nodeagent.contracts.runtime.ContainerRuntime` on a Unix socket.

    Timeouts: ``runtimeRequestTimeout`` per call; twice that to start a sandbox; that plus the grace period to stop a
    container; that plus its own timeout for an exec, or none for an exec without a timeout. Calls that create or start
    something are given time to complete when they are cancelled.

    :param ipv6_first: IPv6 is the node's primary family, so a pod's IPv6 address is listed first.

    spec: config.containerRuntimeEndpoint, config.runtimeRequestTimeout
    """

    def __init__(self, connection: Connection, clock: Clock, *, ipv6_first: bool = False) -> None:
        self.connection, self._clock, self._ipv6_first = connection, clock, ipv6_first
        self._sandboxes: Listing[SandboxInfo] = Listing(responses.sandbox_info)
        self._containers: Listing[ContainerInfo] = Listing(responses.container_info)
        self._image_volumes: bool | None = None

    async def close(self) -> None:
        """Close the connection, which an image service may share."""
        await self.connection.close()

    async def version(self) -> RuntimeVersion:
        request = cri.VersionRequest(version=API_VERSION)
        response = await self.connection.call("Version", request, "get the runtime version")
        version = RuntimeVersion(response.runtime_name, response.runtime_version, response.runtime_api_version)
        self._image_volumes = supports_image_volumes(version)
        return version

    async def status(self) -> RuntimeStatus:
        response = await self.connection.call("Status", cri.StatusRequest(), "get the runtime status")
        if self._image_volumes is None:
            await self.version()
        return responses.runtime_status(response, image_volumes=bool(self._image_volumes))

    async def info(self) -> Mapping[str, str]:
        """Return the runtime's description of its setup (``Status`` with ``verbose``)."""
        response = await self.connection.call(
            "Status", cri.StatusRequest(verbose=True), "get the verbose runtime status"
        )
        return dict(response.info)

    async def cgroup_driver(self) -> str:
        try:
            request = cri.RuntimeConfigRequest()
            response = await self.connection.call("RuntimeConfig", request, "get the cgroup driver")
        except UnimplementedError:
            return ""
        if not response.HasField("linux"):
            return ""
        return "cgroupfs" if response.linux.cgroup_driver == cri.CGROUPFS else "systemd"

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        network = cri.NetworkConfig(pod_cidr=pod_cidr)
        request = cri.UpdateRuntimeConfigRequest(runtime_config=cri.RuntimeConfig(network_config=network))
        await self.connection.call("UpdateRuntimeConfig", request, f"set pod CIDR {pod_cidr}")

    # --- sandboxes --------------------------------------------------------------------------------------------

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        request = cri.RunPodSandboxRequest(config=requests.sandbox_config(config), runtime_handler=runtime_handler)
        attempt = f"run sandbox of {config.namespace}/{config.name}"
        response = await self.connection.finish("RunPodSandbox", request, attempt, 2 * self.connection.timeout_seconds)
        return str(response.pod_sandbox_id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._if_known("StopPodSandbox", request, f"stop sandbox {sandbox_id}")

    async def remove_sandbox(self, sandbox_id: str) -> None:
        request = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        await self._if_known("RemovePodSandbox", request, f"remove sandbox {sandbox_id}")

    async def list_sandboxes(self, pod_uid: str = "") -> Sequence[SandboxInfo]:
        if not pod_uid:
            response = await self.connection.call("ListPodSandbox", cri.ListPodSandboxRequest(), "list sandboxes")
            return self._sandboxes.take(response.items)
        selector = cri.PodSandboxFilter(label_selector={LABEL_POD_UID: pod_uid})
        request = cri.ListPodSandboxRequest(filter=selector)
        response = await self.connection.call("ListPodSandbox", request, f"list sandboxes of pod {pod_uid}")
        return self._sandboxes.lookup(response.items)

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id)
        response = await self.connection.call("PodSandboxStatus", request, f"get status of sandbox {sandbox_id}")
        return responses.sandbox_status(response.status, ipv6_first=self._ipv6_first)

    # --- containers -------------------------------------------------------------------------------------------

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        attempt = f"create container {config.name} of {sandbox.namespace}/{sandbox.name}"
        if config.cdi_devices:
            support, names = await self._cdi_support(), config.cdi_devices
            if support.problem:
                raise RuntimeFailure(f"{attempt}: CDI devices {', '.join(names)}: {support.problem}")
            if not support.reads_field:
                config = replace(config, annotations={**config.annotations, _CDI_ANNOTATION: ",".join(names)})
        request = cri.CreateContainerRequest(
            pod_sandbox_id=sandbox_id,
            config=requests.container_config(config),
            sandbox_config=requests.sandbox_config(sandbox),
        )
        return str((await self.connection.finish("CreateContainer", request, attempt)).container_id)

    async def start_container(self, container_id: str) -> None:
        request = cri.StartContainerRequest(container_id=container_id)
        await self.connection.finish("StartContainer", request, f"start container {container_id}")

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        request = cri.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        bound = self.connection.timeout_seconds + grace_seconds
        await self._if_known("StopContainer", request, f"stop container {container_id}", bound)

    async def remove_container(self, container_id: str) -> None:
        request = cri.RemoveContainerRequest(container_id=container_id)
        await self._if_known("RemoveContainer", request, f"remove container {container_id}")

    async def list_containers(self, pod_uid: str = "") -> Sequence[ContainerInfo]:
        if not pod_uid:
            response = await self.connection.call("ListContainers", cri.ListContainersRequest(), "list containers")
            return self._containers.take(response.containers)
        selector = cri.ContainerFilter(label_selector={LABEL_POD_UID: pod_uid})
        request = cri.ListContainersRequest(filter=selector)
        response = await self.connection.call("ListContainers", request, f"list containers of pod {pod_uid}")
        return self._containers.lookup(response.containers)

    async def container_status(self, container_id: str) -> RuntimeContainerStatus:
        request = cri.ContainerStatusRequest(container_id=container_id)
        response = await self.connection.call("ContainerStatus", request, f"get status of container {container_id}")
        return responses.container_status(response.status)

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        request = cri.UpdateContainerResourcesRequest(container_id=container_id, linux=requests.resources(resources))
        await self.connection.call("UpdateContainerResources", request, f"update resources of container {container_id}")

    async def reopen_log(self, container_id: str) -> None:
        request = cri.ReopenContainerLogRequest(container_id=container_id)
        await self.connection.call("ReopenContainerLog", request, f"reopen the log of container {container_id}")

    async def update_sandbox_resources(
        self, sandbox_id: str, overhead: LinuxResources | None, resources: LinuxResources
    ) -> None:
        """Notify the runtime of the resources of a pod.

        :raises NotImplementedError: the runtime does not implement the call.
        """
        request = cri.UpdatePodSandboxResourcesRequest(
            pod_sandbox_id=sandbox_id,
            overhead=None if overhead is None else requests.resources(overhead),
            resources=requests.resources(resources),
        )
        try:
            await self.connection.call(
                "UpdatePodSandboxResources", request, f"update resources of sandbox {sandbox_id}"
            )
        except UnimplementedError as error:
            raise NotImplementedError(str(error)) from error

    async def checkpoint_container(self, container_id: str, location: str, timeout_seconds: int) -> None:
        """Checkpoint a container to the file *location*.

        :raises NotImplementedError: the runtime does not implement the call.
        """
        request = cri.CheckpointContainerRequest(container_id=container_id, location=location, timeout=timeout_seconds)
        bound = self.connection.timeout_seconds + timeout_seconds
        try:
            await self.connection.call("CheckpointContainer", request, f"checkpoint container {container_id}", bound)
        except UnimplementedError as error:
            raise NotImplementedError(str(error)) from error

    # --- inside containers ------------------------------------------------------------------------------------

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout_seconds: float) -> ExecResult:
        limit = math.ceil(timeout_seconds)  # CRI has a resolution of one second.
        request = cri.ExecSyncRequest(container_id=container_id, cmd=command, timeout=limit)
        bound = limit + self.connection.timeout_seconds if limit else None
        attempt = f"run {command[0] if command else 'nothing'} in container {container_id}"
        started = self._clock.now()
        try:
            response = await self.connection.leave("ExecSync", request, attempt, bound)
        except RuntimeTimeout as error:
            # The runtime reports a command that exceeds its timeout this way, well before the call itself times out.
            if bound is not None and self._clock.now() - started < bound:
                raise TimeoutError(f"{attempt}: timed out after {limit} s") from error
            raise
        return ExecResult(response.exit_code, response.stdout, response.stderr)

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        request = cri.ExecRequest(
            container_id=container_id, cmd=command, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty
        )
        return str((await self.connection.call("Exec", request, f"prepare exec in container {container_id}")).url)

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        request = cri.AttachRequest(container_id=container_id, stdin=stdin, stdout=stdout, stderr=stderr, tty=tty)
        return str((await self.connection.call("Attach", request, f"prepare attach to container {container_id}")).url)

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        request = cri.PortForwardRequest(pod_sandbox_id=sandbox_id, port=ports)
        attempt = f"prepare port forward to sandbox {sandbox_id}"
        return str((await self.connection.call("PortForward", request, attempt)).url)

    # --- statistics and events --------------------------------------------------------------------------------

    async def container_stats(self) -> Sequence[ContainerStats]:
        response = await self.connection.call(
            "ListContainerStats", cri.ListContainerStatsRequest(), "get the usage of containers"
        )
        return tuple(map(responses.container_stats, response.stats))

    async def sandbox_stats(self) -> Sequence[SandboxStats]:
        request = cri.ListPodSandboxStatsRequest()
        try:
            response = await self.connection.call("ListPodSandboxStats", request, "get the usage of sandboxes")
        except UnimplementedError as error:
            raise NotImplementedError(str(error)) from error
        return tuple(map(responses.sandbox_stats, response.stats))

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        """Yield the runtime's events as they arrive.

        :raises NotImplementedError: the runtime does not implement the call.
        """
        stream = self.connection.stream("GetContainerEvents", cri.GetEventsRequest(), "watch the runtime's events")
        try:
            async with contextlib.aclosing(stream):
                async for response in stream:
                    if (event := responses.event(response)) is not None:
                        yield event
        except UnimplementedError as error:
            raise NotImplementedError(str(error)) from error

    async def changes(self) -> AsyncIterator[None]:
        """Yield when a container has changed, according to containerd's event API.

        :raises NotImplementedError: the runtime does not implement the call.
        """
        request = changes.SubscribeRequest(filters=changes.FILTERS)
        stream = self.connection.stream("Subscribe", request, "watch changes of containers")
        try:
            async with contextlib.aclosing(stream):
                async for _ in stream:
                    yield
        except UnimplementedError as error:
            raise NotImplementedError(str(error)) from error

    async def _cdi_support(self) -> CdiSupport:
        version = await self.version()
        return cdi_support(version.name, version.version, await self.info())

    async def _if_known(self, name: str, request: object, attempt: str, timeout_seconds: float = 0) -> None:
        """Send a call that stops or removes an object; an object unknown to the runtime counts as removed."""
        try:
            await self.connection.call(name, request, attempt, timeout_seconds)
        except NotFound:
            return
