"""RuntimeService and ImageService of the fake runtime, with their state as CRI messages in memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes
from nodeagent.errors import NotFound, RuntimeFailure

_STARTED, _ENDED, _DELETED = changes.TOPICS
_STOPPED = 143
"""Exit code of a stopped container, that of SIGTERM."""
_IMAGE_BYTES = 1_000_000


class RuntimeService:
    """Sandboxes and containers.

    A container runs until it is stopped; one with the command ``exit CODE`` exits at its start. Commands in containers
    succeed. The verbose status has the number of calls by method in ``info["calls"]``.
    """

    def __init__(self) -> None:
        self._sandboxes: dict[str, cri.PodSandbox] = {}
        self._networks: dict[str, tuple[str, cri.NamespaceOption]] = {}
        self._commands: dict[str, list[str]] = {}
        self._containers: dict[str, tuple[cri.Container, cri.ContainerStatus]] = {}
        self._listeners: list[asyncio.Queue[str]] = []
        self._calls: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def count(self, method: str) -> None:
        """Count a call."""
        self._calls[method] += 1

    @contextlib.contextmanager
    def listener(self) -> Iterator[asyncio.Queue[str]]:
        """Return a queue with the topic of each event of a container."""
        queue: asyncio.Queue[str] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            yield queue
        finally:
            self._listeners.remove(queue)

    # --- the runtime itself -----------------------------------------------------------------------------------

    def version(self, _request: Any) -> cri.VersionResponse:
        return cri.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="1.0.0", runtime_api_version="v1"
        )

    def status(self, request: Any) -> cri.StatusResponse:
        conditions = [cri.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")]
        info = {"calls": json.dumps(self._calls)} if request.verbose else {}
        return cri.StatusResponse(status=cri.RuntimeStatus(conditions=conditions), info=info)

    def update_runtime_config(self, _request: Any) -> cri.UpdateRuntimeConfigResponse:
        return cri.UpdateRuntimeConfigResponse()

    # --- sandboxes --------------------------------------------------------------------------------------------

    def run_pod_sandbox(self, request: Any) -> cri.RunPodSandboxResponse:
        config, number = request.config, next(self._numbers)
        sandbox = cri.PodSandbox(
            id=_identifier("sandbox", number),
            metadata=config.metadata,
            state=cri.SANDBOX_READY,
            created_at=time.time_ns(),
            labels=config.labels,
            annotations=config.annotations,
            runtime_handler=request.runtime_handler,
        )
        self._sandboxes[sandbox.id] = sandbox
        namespaces = config.linux.security_context.namespace_options
        address = "" if namespaces.network == cri.NODE else f"10.88.{number >> 8 & 255}.{number & 255}"
        self._networks[sandbox.id] = (address, namespaces)
        self._changed(_STARTED)
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox.id)

    def stop_pod_sandbox(self, request: Any) -> cri.StopPodSandboxResponse:
        if (sandbox := self._sandboxes.get(request.pod_sandbox_id)) is not None:
            for container, status in self._of(sandbox.id):
                self._end(container, status)
            if sandbox.state == cri.SANDBOX_READY:
                sandbox.state = cri.SANDBOX_NOTREADY
                self._changed(_ENDED)
        return cri.StopPodSandboxResponse()

    def remove_pod_sandbox(self, request: Any) -> cri.RemovePodSandboxResponse:
        if self._sandboxes.pop(request.pod_sandbox_id, None) is not None:
            del self._networks[request.pod_sandbox_id]
            for container, _ in self._of(request.pod_sandbox_id):
                self._remove(container)
            self._changed(_DELETED)
        return cri.RemovePodSandboxResponse()

    def list_pod_sandbox(self, request: Any) -> cri.ListPodSandboxResponse:
        requested = request.filter
        items = [
            item
            for item in self._sandboxes.values()
            if item.id.startswith(requested.id) and _has_labels(item, requested.label_selector)
        ]
        if requested.HasField("state"):
            items = [item for item in items if item.state == requested.state.state]
        return cri.ListPodSandboxResponse(items=items)

    def pod_sandbox_status(self, request: Any) -> cri.PodSandboxStatusResponse:
        if (sandbox := self._sandboxes.get(request.pod_sandbox_id)) is None:
            raise NotFound(f"sandbox {request.pod_sandbox_id} does not exist")
        address, namespaces = self._networks[sandbox.id]
        ready = sandbox.state == cri.SANDBOX_READY
        status = cri.PodSandboxStatus(
            id=sandbox.id,
            metadata=sandbox.metadata,
            state=sandbox.state,
            created_at=sandbox.created_at,
            network=cri.PodSandboxNetworkStatus(ip=address if ready else ""),
            linux=cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=namespaces)),
            labels=sandbox.labels,
            annotations=sandbox.annotations,
            runtime_handler=sandbox.runtime_handler,
        )
        return cri.PodSandboxStatusResponse(status=status)

    # --- containers -------------------------------------------------------------------------------------------

    def create_container(self, request: Any) -> cri.CreateContainerResponse:
        if (sandbox := self._sandboxes.get(request.pod_sandbox_id)) is None:
            raise NotFound(f"sandbox {request.pod_sandbox_id} does not exist")
        config, now = request.config, time.time_ns()
        for known, _ in self._of(sandbox.id):
            if known.metadata == config.metadata:
                raise RuntimeFailure(f"container name {config.metadata.name} is reserved for {known.id}")
        identifier = _identifier("container", next(self._numbers))
        common: dict[str, Any] = {
            "id": identifier,
            "metadata": config.metadata,
            "image": config.image,
            "image_ref": config.image.image,
            "state": cri.CONTAINER_CREATED,
            "created_at": now,
            "labels": config.labels,
            "annotations": config.annotations,
        }
        path = f"{request.sandbox_config.log_directory}/{config.log_path}" if config.log_path else ""
        container = cri.Container(pod_sandbox_id=sandbox.id, **common)
        status = cri.ContainerStatus(mounts=config.mounts, log_path=path, **common)
        self._containers[identifier], self._commands[identifier] = (container, status), list(config.command)
        return cri.CreateContainerResponse(container_id=identifier)

    def start_container(self, request: Any) -> cri.StartContainerResponse:
        container, status = self._container(request)
        container.state = status.state = cri.CONTAINER_RUNNING
        status.started_at = time.time_ns()
        _open_log(status.log_path)
        self._changed(_STARTED)
        command = self._commands[container.id]
        if command[:1] == ["exit"]:
            self._end(container, status, int(command[1]))
        return cri.StartContainerResponse()

    def stop_container(self, request: Any) -> cri.StopContainerResponse:
        self._end(*self._container(request))
        return cri.StopContainerResponse()

    def remove_container(self, request: Any) -> cri.RemoveContainerResponse:
        if (found := self._containers.get(request.container_id)) is not None:
            self._end(*found)
            self._remove(found[0])
            self._changed(_DELETED)
        return cri.RemoveContainerResponse()

    def list_containers(self, request: Any) -> cri.ListContainersResponse:
        requested = request.filter
        containers = [
            item
            for item, _ in self._containers.values()
            if item.id.startswith(requested.id)
            and item.pod_sandbox_id.startswith(requested.pod_sandbox_id)
            and _has_labels(item, requested.label_selector)
        ]
        if requested.HasField("state"):
            containers = [item for item in containers if item.state == requested.state.state]
        return cri.ListContainersResponse(containers=containers)

    def container_status(self, request: Any) -> cri.ContainerStatusResponse:
        return cri.ContainerStatusResponse(status=self._container(request)[1])

    def update_container_resources(self, request: Any) -> cri.UpdateContainerResourcesResponse:
        self._container(request)
        return cri.UpdateContainerResourcesResponse()

    def reopen_container_log(self, request: Any) -> cri.ReopenContainerLogResponse:
        _open_log(self._container(request)[1].log_path)
        return cri.ReopenContainerLogResponse()

    def exec_sync(self, request: Any) -> cri.ExecSyncResponse:
        self._container(request)
        return cri.ExecSyncResponse()

    def list_container_stats(self, _request: Any) -> cri.ListContainerStatsResponse:
        now = time.time_ns()
        stats = [
            cri.ContainerStats(
                attributes=cri.ContainerAttributes(id=item.id, metadata=item.metadata, labels=item.labels),
                cpu=cri.CpuUsage(timestamp=now, usage_core_nano_seconds=cri.UInt64Value(value=0)),
                memory=cri.MemoryUsage(timestamp=now, working_set_bytes=cri.UInt64Value(value=0)),
            )
            for item, _ in self._containers.values()
            if item.state == cri.CONTAINER_RUNNING
        ]
        return cri.ListContainerStatsResponse(stats=stats)

    # --- helpers ----------------------------------------------------------------------------------------------

    def _container(self, request: Any) -> tuple[cri.Container, cri.ContainerStatus]:
        if (found := self._containers.get(request.container_id)) is None:
            raise NotFound(f"container {request.container_id} does not exist")
        return found

    def _of(self, sandbox_id: str) -> list[tuple[cri.Container, cri.ContainerStatus]]:
        return [found for found in self._containers.values() if found[0].pod_sandbox_id == sandbox_id]

    def _end(self, container: cri.Container, status: cri.ContainerStatus, code: int = _STOPPED) -> None:
        if container.state == cri.CONTAINER_RUNNING:
            container.state = status.state = cri.CONTAINER_EXITED
            status.exit_code, status.finished_at = code, time.time_ns()
            status.reason = "Error" if code else "Completed"
            self._changed(_ENDED)

    def _remove(self, container: cri.Container) -> None:
        del self._containers[container.id], self._commands[container.id]

    def _changed(self, topic: str) -> None:
        for queue in self._listeners:
            queue.put_nowait(topic)


class ImageService:
    """Images: each one that is requested is in the store."""

    def __init__(self) -> None:
        self._images: dict[str, cri.Image] = {}

    def list_images(self, _request: Any) -> cri.ListImagesResponse:
        return cri.ListImagesResponse(images=self._images.values())

    def image_status(self, request: Any) -> cri.ImageStatusResponse:
        return cri.ImageStatusResponse(image=self._image(request.image.image))

    def pull_image(self, request: Any) -> cri.PullImageResponse:
        return cri.PullImageResponse(image_ref=self._image(request.image.image).id)

    def remove_image(self, request: Any) -> cri.RemoveImageResponse:
        self._images.pop(request.image.image, None)
        return cri.RemoveImageResponse()

    def image_fs_info(self, _request: Any) -> cri.ImageFsInfoResponse:
        usage = cri.FilesystemUsage(timestamp=time.time_ns(), fs_id=cri.FilesystemIdentifier(mountpoint="/"))
        return cri.ImageFsInfoResponse(image_filesystems=[usage])

    def _image(self, name: str) -> cri.Image:
        if name not in self._images:
            digest = hashlib.sha256(name.encode()).hexdigest()
            self._images[name] = cri.Image(
                id=f"sha256:{digest}",
                repo_tags=[name],
                size=_IMAGE_BYTES,
                uid=cri.Int64Value(value=0),
                spec=cri.ImageSpec(image=name),
            )
        return self._images[name]


def _identifier(kind: str, number: int) -> str:
    """Return an identifier of 64 digits, as containerd has."""
    return hashlib.sha256(f"{kind} {number}".encode()).hexdigest()


def _open_log(path: str) -> None:
    """Create a log file, if its directory exists, as a runtime does; it remains empty."""
    if path:
        with contextlib.suppress(OSError):
            Path(path).touch()


def _has_labels(item: Any, requested: Mapping[str, str]) -> bool:
    return all(item.labels.get(key) == value for key, value in requested.items())
