"""Fake container runtime: records calls and simulates the states of sandboxes and containers in memory."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nodeagent.base.aio import Clock
from nodeagent.contracts.runtime import (
    LABEL_CONTAINER_NAME,
    ContainerConfig,
    ContainerInfo,
    ContainerState,
    ContainerStats,
    ExecResult,
    LinuxResources,
    NamespaceMode,
    RuntimeCondition,
    RuntimeContainerStatus,
    RuntimeEvent,
    RuntimeEventType,
    RuntimeFeatures,
    RuntimeHandler,
    RuntimePod,
    RuntimeStatus,
    RuntimeVersion,
    SandboxConfig,
    SandboxInfo,
    SandboxStats,
    SandboxStatus,
)
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.model.pod import Pod
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.faults import Faults
from nodeagent.testing.images import FakeImages
from nodeagent.testing.pods import make_pod, sandbox_config

_T = TypeVar("_T")
ExecHandler = Callable[[Sequence[str]], ExecResult]


@dataclass(frozen=True, slots=True)
class Call:
    """One call, with its arguments in the order of the contract."""

    method: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class _Behavior:
    exit_code: int | None = None
    after_seconds: float = 0.0
    message: str = ""
    ignores_term: bool = False


@dataclass(slots=True)
class _Sandbox:
    id: str
    config: SandboxConfig
    handler: str
    created_at: int
    ips: tuple[str, ...]
    ready: bool = True


@dataclass(slots=True)
class _Container:
    id: str
    sandbox_id: str
    config: ContainerConfig
    created_at: int
    state: ContainerState = ContainerState.CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    exits_at: float | None = None
    exits_with: int = 0
    exit_message: str = ""
    log_reopened: int = 0
    resources: LinuxResources = field(default_factory=LinuxResources)


class FakeRuntime(Faults):
    """A :class:`~nodeagent.contracts.runtime.ContainerRuntime` in memory.

    Containers run until :meth:`exit`, or as specified with :meth:`behave`; all calls are recorded in :attr:`calls`.

    :param clock: clock for timestamps and for :meth:`behave`.
    :param images: if specified, containers can be created only from its images.
    :param events: whether the runtime supports an event stream.
    :param notifies: whether the runtime notifies of changes.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        images: FakeImages | None = None,
        events: bool = False,
        notifies: bool = False,
    ) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.conditions: list[RuntimeCondition] = [
            RuntimeCondition("RuntimeReady", True),
            RuntimeCondition("NetworkReady", True),
        ]
        self.handlers: Sequence[RuntimeHandler] = ()
        self.features: RuntimeFeatures | None = None
        self.image_volumes = False
        self.pod_cidr = ""
        self.driver = ""
        self.stats: dict[str, ContainerStats] = {}
        """Stats of containers by ID; other containers have empty stats."""
        self.pod_stats: dict[str, SandboxStats] | None = None
        """Stats of sandboxes by pod UID; ``None`` if the runtime does not support them."""
        self._clock: Clock = clock or FakeClock()
        self._images = images
        self._has_events, self._notifies = events, notifies
        self._streams: list[asyncio.Queue[RuntimeEvent | None]] = []
        self._sandboxes: dict[str, _Sandbox] = {}
        self._containers: dict[str, _Container] = {}
        self._behaviors: dict[str, _Behavior] = {}
        self._exec: dict[str, ExecHandler] = {}
        self._numbers = itertools.count(1)
        self._lists: dict[tuple[str, str], tuple[Any, ...]] = {}

    # --- controls for tests -----------------------------------------------------------------------------------

    def start(self, name: str, pod: Pod | None = None, **config: Any) -> str:
        """Add a running container, with its sandbox, without recording calls; return its ID."""
        pod = pod or make_pod(name, containers=[name])
        sandbox = next((s for s in self._newest_first() if s.config.uid == pod.uid and s.ready), None)
        if sandbox is None:
            attempt = sum(1 for s in self._sandboxes.values() if s.config.uid == pod.uid)
            sandbox = self._add_sandbox(sandbox_config(pod, attempt), "")
        used = [c.config.attempt for c in self._containers.values() if c.sandbox_id == sandbox.id]
        labels = {**sandbox.config.labels, LABEL_CONTAINER_NAME: name, **config.pop("labels", {})}
        settings = ContainerConfig(
            **{"name": name, "attempt": max(used, default=-1) + 1, "image": "image", "labels": labels, **config}
        )
        container = self._add_container(sandbox.id, settings)
        self._start(container)
        return container.id

    def exit(self, container_id: str, exit_code: int = 0, *, reason: str = "", message: str = "") -> None:
        """Make a running container exit."""
        self._end(self._container(container_id), exit_code, reason, message)

    def kill_sandbox(self, sandbox_id: str) -> None:
        """Make a sandbox exit, with all its containers."""
        self._stop_sandbox(self._sandbox(sandbox_id))

    def behave(
        self,
        name: str,
        *,
        exit_code: int | None = None,
        after_seconds: float = 0.0,
        message: str = "",
        ignores_term: bool = False,
    ) -> None:
        """Set the behavior of containers with *name* that are started later.

        :param exit_code: exit code; ``None`` if they run until they are stopped.
        :param after_seconds: time until they exit; 0 is during the call that starts them.
        :param message: the termination message.
        :param ignores_term: whether they ignore SIGTERM, so that a stop lasts for the grace period.
        """
        self._behaviors[name] = _Behavior(exit_code, after_seconds, message, ignores_term)

    def on_exec(self, name: str, result: ExecResult | ExecHandler) -> None:
        """Set the result of commands in containers with *name*; exceptions of a handler are raised to the caller."""
        self._exec[name] = result if callable(result) else lambda _command: result

    def called(self, method: str) -> list[Call]:
        """Return the calls of *method*, in order."""
        return [call for call in self.calls if call.method == method]

    def running(self) -> list[str]:
        """Return the names of running containers as ``pod/container``, sorted."""
        self._tick()
        return sorted(
            f"{self._sandboxes[c.sandbox_id].config.name}/{c.config.name}"
            for c in self._containers.values()
            if c.state is ContainerState.RUNNING
        )

    def config_of(self, container_id: str) -> ContainerConfig:
        """Return the configuration of a container."""
        return self._container(container_id).config

    def sandbox_config_of(self, sandbox_id: str) -> SandboxConfig:
        """Return the configuration of a sandbox."""
        return self._sandbox(sandbox_id).config

    def pod(self, uid: str) -> RuntimePod:
        """Return the sandboxes and containers of a pod, most recent first, without recording a call."""
        self._tick()
        sandboxes = [s for s in self._newest_first() if s.config.uid == uid]
        ids = {s.id for s in sandboxes}
        containers = [c for c in reversed(self._containers.values()) if c.sandbox_id in ids]
        return RuntimePod(
            uid=uid,
            name=sandboxes[0].config.name if sandboxes else "",
            namespace=sandboxes[0].config.namespace if sandboxes else "",
            sandboxes=tuple(_sandbox_status(s) for s in sandboxes),
            containers=tuple(_container_status(c) for c in containers),
            observed_at=self._clock.now(),
        )

    def end_events(self) -> None:
        """Close all open event streams, as a stopping runtime does."""
        for queue in self._streams:
            queue.put_nowait(None)

    # --- the contract: sandboxes ------------------------------------------------------------------------------

    async def version(self) -> RuntimeVersion:
        await self._enter("version")
        return RuntimeVersion("fake", "1.0.0", "v1")

    async def status(self) -> RuntimeStatus:
        await self._enter("status")
        return RuntimeStatus(tuple(self.conditions), tuple(self.handlers), self.features, self.image_volumes)

    async def cgroup_driver(self) -> str:
        await self._enter("cgroup_driver")
        return self.driver

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        await self._enter("update_pod_cidr", pod_cidr)
        self.pod_cidr = pod_cidr

    async def run_sandbox(self, config: SandboxConfig, runtime_handler: str = "") -> str:
        await self._enter("run_sandbox", config, runtime_handler)
        for known in self._sandboxes.values():
            if (known.config.uid, known.config.attempt) == (config.uid, config.attempt):
                raise RuntimeFailure(f"sandbox name of {config.namespace}/{config.name} is reserved for {known.id}")
        return self._add_sandbox(config, runtime_handler).id

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._enter("stop_sandbox", sandbox_id)
        if (sandbox := self._sandboxes.get(sandbox_id)) is not None:
            self._stop_sandbox(sandbox)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self._enter("remove_sandbox", sandbox_id)
        if (sandbox := self._sandboxes.get(sandbox_id)) is None:
            return
        self._stop_sandbox(sandbox)
        for container in [c for c in self._containers.values() if c.sandbox_id == sandbox_id]:
            self._remove(container)
        del self._sandboxes[sandbox_id]
        self._changed(sandbox_id, sandbox.config.uid, RuntimeEventType.DELETED)

    async def list_sandboxes(self, pod_uid: str = "") -> Sequence[SandboxInfo]:
        await self._enter("list_sandboxes", pod_uid)
        return self._listed(
            "sandboxes",
            pod_uid,
            lambda: [_sandbox_info(s) for s in self._newest_first() if pod_uid in ("", s.config.uid)],
        )

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        await self._enter("sandbox_status", sandbox_id)
        return _sandbox_status(self._sandbox(sandbox_id))

    # --- the contract: containers -----------------------------------------------------------------------------

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        await self._enter("create_container", sandbox_id, config, sandbox)
        owner = self._sandbox(sandbox_id)
        if not owner.ready:
            raise RuntimeFailure(f"sandbox {sandbox_id} is not running")
        for known in self._containers.values():
            same = (known.config.name, known.config.attempt) == (config.name, config.attempt)
            if same and self._sandboxes[known.sandbox_id].config.uid == owner.config.uid:
                raise RuntimeFailure(f"container name {config.name} is reserved for {known.id}")
        if self._images is not None and self._images.find(config.image) is None:
            raise NotFound(f"image {config.image} is not in the store")
        return self._add_container(sandbox_id, config).id

    async def start_container(self, container_id: str) -> None:
        await self._enter("start_container", container_id)
        container = self._container(container_id)
        if container.state is not ContainerState.CREATED:
            raise RuntimeFailure(f"container {container_id} is in state {container.state.name}")
        self._start(container)

    async def stop_container(self, container_id: str, grace_seconds: int) -> None:
        await self._enter("stop_container", container_id, grace_seconds)
        container = self._containers.get(container_id)
        if container is None or container.state is not ContainerState.RUNNING:
            return
        if self._behavior(container).ignores_term:
            await self._clock.sleep(grace_seconds)
            self._tick()
            code = 137
        else:
            code = 143 if grace_seconds > 0 else 137
        if container.state is ContainerState.RUNNING:
            self._end(container, code, "Error", "")

    async def remove_container(self, container_id: str) -> None:
        await self._enter("remove_container", container_id)
        if (container := self._containers.get(container_id)) is not None:
            self._remove(container)

    async def list_containers(self, pod_uid: str = "") -> Sequence[ContainerInfo]:
        await self._enter("list_containers", pod_uid)
        return self._listed(
            "containers",
            pod_uid,
            lambda: [
                _container_info(c)
                for c in reversed(self._containers.values())
                if pod_uid in ("", self._sandboxes[c.sandbox_id].config.uid)
            ],
        )

    async def container_status(self, container_id: str) -> RuntimeContainerStatus:
        await self._enter("container_status", container_id)
        return _container_status(self._container(container_id))

    async def update_resources(self, container_id: str, resources: LinuxResources) -> None:
        await self._enter("update_resources", container_id, resources)
        self._container(container_id).resources = resources

    async def reopen_log(self, container_id: str) -> None:
        await self._enter("reopen_log", container_id)
        self._running(container_id).log_reopened += 1

    # --- the contract: exec, streaming, stats and events ------------------------------------------------------

    async def exec_sync(self, container_id: str, command: Sequence[str], timeout_seconds: float) -> ExecResult:
        await self._enter("exec_sync", container_id, tuple(command), timeout_seconds)
        container = self._running(container_id)
        handler = self._exec.get(container.config.name)
        return handler(command) if handler else ExecResult(0)

    async def exec_url(
        self, container_id: str, command: Sequence[str], *, stdin: bool, stdout: bool, stderr: bool, tty: bool
    ) -> str:
        await self._enter("exec_url", container_id, tuple(command), stdin, stdout, stderr, tty)
        return f"http://127.0.0.1:1/exec/{self._running(container_id).id}"

    async def attach_url(self, container_id: str, *, stdin: bool, stdout: bool, stderr: bool, tty: bool) -> str:
        await self._enter("attach_url", container_id, stdin, stdout, stderr, tty)
        return f"http://127.0.0.1:1/attach/{self._running(container_id).id}"

    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str:
        await self._enter("port_forward_url", sandbox_id, tuple(ports))
        return f"http://127.0.0.1:1/portforward/{self._sandbox(sandbox_id).id}"

    async def container_stats(self) -> Sequence[ContainerStats]:
        await self._enter("container_stats")
        return tuple(
            self.stats.get(c.id)
            or ContainerStats(c.id, c.config.name, self._sandboxes[c.sandbox_id].config.uid, timestamp=self._time())
            for c in self._containers.values()
            if c.state is ContainerState.RUNNING
        )

    async def sandbox_stats(self) -> Sequence[SandboxStats]:
        await self._enter("sandbox_stats")
        if self.pod_stats is None:
            raise NotImplementedError("this runtime does not support sandbox stats")
        return tuple(self.pod_stats.values())

    def events(self) -> AsyncIterator[RuntimeEvent] | None:
        self.calls.append(Call("events"))
        return self._stream() if self._has_events else None

    async def changes(self) -> AsyncIterator[None]:
        if not self._notifies:
            raise NotImplementedError("this runtime does not notify of changes")
        async with contextlib.aclosing(self._stream()) as stream:
            async for _ in stream:
                yield

    # --- internals --------------------------------------------------------------------------------------------

    async def _enter(self, method: str, *arguments: Any) -> None:
        self.calls.append(Call(method, arguments))
        await self._pass(method)
        self._tick()

    async def _stream(self) -> AsyncGenerator[RuntimeEvent, None]:
        queue: asyncio.Queue[RuntimeEvent | None] = asyncio.Queue()
        self._streams.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._streams.remove(queue)

    def _tick(self) -> None:
        """Stop the containers whose time of exit has passed."""
        now = self._clock.now()
        for container in list(self._containers.values()):
            due = container.exits_at
            if due is not None and due <= now and container.state is ContainerState.RUNNING:
                ended = self._time() - int((now - due) * 1e9)
                self._end(container, container.exits_with, "", container.exit_message, at=ended)

    def _add_sandbox(self, config: SandboxConfig, handler: str) -> _Sandbox:
        number = next(self._numbers)
        on_host = config.security.namespaces.network is NamespaceMode.NODE
        sandbox = _Sandbox(
            id=f"sandbox-{number:04d}-{config.name}",
            config=config,
            handler=handler,
            created_at=self._time(),
            ips=() if on_host else (f"10.88.{number >> 8 & 255}.{number & 255}",),
        )
        self._sandboxes[sandbox.id] = sandbox
        self._changed(sandbox.id, config.uid, RuntimeEventType.CREATED, RuntimeEventType.STARTED)
        return sandbox

    def _add_container(self, sandbox_id: str, config: ContainerConfig) -> _Container:
        number = next(self._numbers)
        container = _Container(f"container-{number:04d}-{config.name}", sandbox_id, config, self._time())
        container.resources = config.resources
        self._containers[container.id] = container
        self._changed(container.id, self._sandboxes[sandbox_id].config.uid, RuntimeEventType.CREATED)
        return container

    def _start(self, container: _Container) -> None:
        container.state, container.started_at = ContainerState.RUNNING, self._time()
        behavior = self._behavior(container)
        if behavior.exit_code is not None:
            container.exits_at = self._clock.now() + behavior.after_seconds
            container.exits_with, container.exit_message = behavior.exit_code, behavior.message
        self._changed(container.id, self._sandboxes[container.sandbox_id].config.uid, RuntimeEventType.STARTED)
        self._tick()

    def _end(self, container: _Container, code: int, reason: str, message: str, at: int | None = None) -> None:
        container.state, container.exit_code = ContainerState.EXITED, code
        container.finished_at = at or self._time()
        container.reason = reason or ("Completed" if code == 0 else "Error")
        container.message, container.exits_at = message, None
        self._changed(container.id, self._sandboxes[container.sandbox_id].config.uid, RuntimeEventType.STOPPED)

    def _stop_sandbox(self, sandbox: _Sandbox) -> None:
        for container in list(self._containers.values()):
            if container.sandbox_id == sandbox.id and container.state is ContainerState.RUNNING:
                self._end(container, 137, "Error", "")
        if sandbox.ready:
            sandbox.ready, sandbox.ips = False, ()
            self._changed(sandbox.id, sandbox.config.uid, RuntimeEventType.STOPPED)

    def _remove(self, container: _Container) -> None:
        if container.state is ContainerState.RUNNING:
            self._end(container, 137, "Error", "")
        del self._containers[container.id]
        self._changed(container.id, self._sandboxes[container.sandbox_id].config.uid, RuntimeEventType.DELETED)

    def _changed(self, object_id: str, pod_uid: str, *types: RuntimeEventType) -> None:
        self._lists.clear()
        if self._streams:
            pod = self.pod(pod_uid)
            for type_ in types:
                for queue in self._streams:
                    queue.put_nowait(RuntimeEvent(type_, object_id, pod_uid, pod, self._time()))

    def _listed(self, kind: str, pod_uid: str, make: Callable[[], Sequence[_T]]) -> Sequence[_T]:
        """Return the same object until a change, as the contract requires."""
        key = (kind, pod_uid)
        if key not in self._lists:
            self._lists[key] = tuple(make())
        return self._lists[key]

    def _newest_first(self) -> list[_Sandbox]:
        return list(reversed(self._sandboxes.values()))

    def _behavior(self, container: _Container) -> _Behavior:
        return self._behaviors.get(container.config.name, _Behavior())

    def _sandbox(self, sandbox_id: str) -> _Sandbox:
        if sandbox_id not in self._sandboxes:
            raise NotFound(f"no sandbox {sandbox_id}")
        return self._sandboxes[sandbox_id]

    def _container(self, container_id: str) -> _Container:
        if container_id not in self._containers:
            raise NotFound(f"no container {container_id}")
        return self._containers[container_id]

    def _running(self, container_id: str) -> _Container:
        container = self._container(container_id)
        if container.state is not ContainerState.RUNNING:
            raise RuntimeFailure(f"container {container_id} is in state {container.state.name}")
        return container

    def _time(self) -> int:
        return int(self._clock.wall().timestamp() * 1e9)


def _sandbox_info(sandbox: _Sandbox) -> SandboxInfo:
    config = sandbox.config
    return SandboxInfo(
        id=sandbox.id,
        name=config.name,
        uid=config.uid,
        namespace=config.namespace,
        attempt=config.attempt,
        ready=sandbox.ready,
        created_at=sandbox.created_at,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.handler,
    )


def _sandbox_status(sandbox: _Sandbox) -> SandboxStatus:
    config = sandbox.config
    return SandboxStatus(
        id=sandbox.id,
        name=config.name,
        uid=config.uid,
        namespace=config.namespace,
        attempt=config.attempt,
        ready=sandbox.ready,
        created_at=sandbox.created_at,
        ips=sandbox.ips,
        network_mode=config.security.namespaces.network,
        labels=config.labels,
        annotations=config.annotations,
        runtime_handler=sandbox.handler,
    )


def _container_info(container: _Container) -> ContainerInfo:
    config = container.config
    return ContainerInfo(
        id=container.id,
        sandbox_id=container.sandbox_id,
        name=config.name,
        attempt=config.attempt,
        image=config.image,
        image_ref=config.image,
        state=container.state,
        created_at=container.created_at,
        labels=config.labels,
        annotations=config.annotations,
    )


def _container_status(container: _Container) -> RuntimeContainerStatus:
    config = container.config
    return RuntimeContainerStatus(
        id=container.id,
        name=config.name,
        attempt=config.attempt,
        state=container.state,
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        exit_code=container.exit_code,
        image=config.user_image or config.image,
        image_ref=config.image,
        reason=container.reason,
        message=container.message,
        log_path=config.log_path,
        labels=config.labels,
        annotations=config.annotations,
        mounts=tuple(config.mounts),
        stop_signal=config.stop_signal,
    )
