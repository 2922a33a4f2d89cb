"""Stop of containers: preStop first, within the grace period; sidecars after all others, in reverse order."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from msgspec import field

from nodeagent.base.aio import Clock
from nodeagent.base.logging import v_level
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.contracts.events import EventRecorder, EventType
from nodeagent.contracts.runtime import ContainerRuntime, ContainerState, RuntimeContainerStatus
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import (
    Container,
    ContainerKind,
    ContainerPort,
    LifecycleHandler,
    Pod,
    container_field_path,
)
from nodeagent_plugins.pod_sync.labels import stop_record
from nodeagent_plugins.pod_sync.lifecycle_hooks import HookFailure, LifecycleHooks

MINIMUM_GRACE_SECONDS = 2
_RESOLUTION_SECONDS = 0.01
"""Time that is not counted when the rest of a grace period is rounded up, as the runtime takes complete seconds."""
_log = logging.getLogger(__name__)


class HookCaller(Protocol):
    """Calls of the plugin manager that are used here."""

    async def notify(self, hook: str, **arguments: Any) -> None: ...

    async def call_chain(self, hook: str, name: str, value: Any, **arguments: Any) -> Any: ...


class StopState(MutableStruct):
    """Completed steps of stopping a pod's containers, which a repeated call skips."""

    announced: set[str] = field(default_factory=set)
    hooked: set[str] = field(default_factory=set)


class Stop(Struct, frozen=True):
    """A container to stop, with all parameters."""

    status: RuntimeContainerStatus
    kind: ContainerKind
    container: Container | None
    grace_seconds: int
    message: str
    pre_stop: LifecycleHandler | None = None
    ports: Sequence[ContainerPort] = ()


def plan_stop(
    pod: Pod,
    status: RuntimeContainerStatus,
    *,
    override_seconds: int | None = None,
    probe_seconds: int | None = None,
    message: str = "",
) -> Stop:
    """Return how to stop *status*; parameters missing in *pod* are read from the container's annotations.

    :param override_seconds: replaces all other grace periods.
    :param probe_seconds: grace period of the failed probe.
    """
    kind, container = find_container(pod, status.name)
    record = stop_record(status)
    known = container is not None
    graces = (
        override_seconds,
        pod.metadata.deletion_grace_period_seconds,
        probe_seconds,
        pod.spec.termination_grace_period_seconds if known else record.grace_seconds,
    )
    grace = next((seconds for seconds in graces if seconds is not None), MINIMUM_GRACE_SECONDS)
    if container is not None:
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        ports: Sequence[ContainerPort] = container.ports or ()
    else:
        hook, ports = record.pre_stop, record.ports
    return Stop(status, kind, container, grace, message or f"Stopping container {status.name}", hook, ports)


def find_container(pod: Pod, name: str) -> tuple[ContainerKind, Container | None]:
    """Return the container of *pod* with its kind; an unknown one counts as regular."""
    return next(((k, c) for k, c in pod.containers() if c.name == name), (ContainerKind.REGULAR, None))


class ContainerStopper:
    """Stops containers of pods."""

    def __init__(
        self,
        runtime: Callable[[], ContainerRuntime],
        recorder: Callable[[], EventRecorder],
        hooks: LifecycleHooks,
        hook_caller: HookCaller,
        clock: Clock,
    ) -> None:
        self._runtime, self._recorder, self._hooks = runtime, recorder, hooks
        self._hook_caller, self._clock = hook_caller, clock

    async def stop_all(
        self, pod: Pod, stops: Sequence[Stop], memory: StopState, pod_ip: str = "", *, forced: bool = False
    ) -> list[NodeAgentError]:
        """Stop all containers in parallel, sidecars last in reverse order; return the errors.

        Sidecars are not stopped after an error, because the containers that use them run.

        :param forced: stop them nevertheless.
        """
        order = {c.name: n for n, c in enumerate(pod.spec.init_containers or ()) if c.restartable_init}
        sidecars = sorted((s for s in stops if s.status.name in order), key=lambda s: -order[s.status.name])
        others = [stop for stop in stops if stop.status.name not in order]
        if len(stops) == 1:
            error = await self._stop(pod, stops[0], memory, pod_ip, ())
            return [error] if error is not None else []
        loop = asyncio.get_running_loop()
        before: list[asyncio.Future[bool]] = []
        jobs = []
        for stop in (*others, *sidecars):
            turn = tuple(before) if stop.status.name in order else ()
            before.append(loop.create_future())
            jobs.append(self._signal(self._stop(pod, stop, memory, pod_ip, turn), before[-1], forced=forced))
        return [error for error in await asyncio.gather(*jobs) if error is not None]

    @staticmethod
    async def _signal(
        job: Awaitable[NodeAgentError | None], stopped: asyncio.Future[bool], *, forced: bool
    ) -> NodeAgentError | None:
        error: NodeAgentError | None = None
        try:
            error = await job
            return error
        finally:
            stopped.set_result(forced or error is None)

    async def _stop(
        self, pod: Pod, stop: Stop, memory: StopState, pod_ip: str, turn: Sequence[asyncio.Future[bool]]
    ) -> NodeAgentError | None:
        status = stop.status
        reference = pod.reference(container_field_path(stop.kind, status.name))
        if status.id not in memory.announced:
            memory.announced.add(status.id)
            self._recorder().record(reference, EventType.NORMAL, "Killing", stop.message)
            fields = {"gracePeriod": stop.grace_seconds, "containerID": status.id}
            _log.log(v_level(2), "Killing container with a grace period", extra=_fields(pod, status.name) | fields)
        deadline = self._clock.now() + stop.grace_seconds
        hook: asyncio.Future[None] | None = None
        try:
            if stop.pre_stop is not None and stop.grace_seconds > 0 and status.id not in memory.hooked:
                if status.state is ContainerState.RUNNING:
                    hook = asyncio.ensure_future(self._run_pre_stop(pod, stop, pod_ip))
                    await self._completes(pod, stop, hook, deadline)
                memory.hooked.add(status.id)
            if turn and not await self._takes_turn(turn, deadline):
                return None
            left = math.ceil(deadline - self._clock.now() - _RESOLUTION_SECONDS)
            await self._runtime().stop_container(status.id, max(MINIMUM_GRACE_SECONDS, left))
        except NodeAgentError as error:
            return error
        finally:
            if hook is not None:
                await _cancel(hook)
        await self._hook_caller.notify(
            "nodeagent_container_stopped", pod=pod, container_name=status.name, container_id=status.id
        )
        return None

    async def _run_pre_stop(self, pod: Pod, stop: Stop, pod_ip: str) -> None:
        name = stop.status.name
        where = f'Container "{name}" in Pod "{pod.name}_{pod.namespace}({pod.uid})"'
        reference = pod.reference(container_field_path(stop.kind, name))
        assert stop.pre_stop is not None

        def fell_back() -> None:
            text = "PreStop hook was requested over HTTPS but the server responded in plain HTTP"
            self._recorder().record(reference, EventType.WARNING, "LifecycleHTTPFallback", text)

        hook = self._hooks.run(
            stop.pre_stop, stop.status.id, where, ports=stop.ports, pod_ip=pod_ip, on_fallback=fell_back
        )
        try:
            await hook
        except HookFailure as error:
            _log.error("PreStop hook failed", extra=_fields(pod, name) | {"err": error})
            self._recorder().record(reference, EventType.WARNING, "FailedPreStopHook", "PreStopHook failed")

    async def _completes(self, pod: Pod, stop: Stop, hook: asyncio.Future[None], deadline: float) -> None:
        """Wait for the preStop hook until *deadline*; it then continues until the container has exited."""
        sleeper = asyncio.ensure_future(self._clock.sleep_until(deadline))
        try:
            await asyncio.wait({hook, sleeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(sleeper)
        if hook.done():
            hook.result()
            return
        fields = {"containerID": stop.status.id, "gracePeriod": stop.grace_seconds}
        extra = _fields(pod, stop.status.name) | fields
        _log.log(v_level(2), "PreStop hook not completed in grace period", extra=extra)

    async def _takes_turn(self, turn: Sequence[asyncio.Future[bool]], deadline: float) -> bool:
        """Wait until the containers before a sidecar are stopped, or until *deadline*; return false after an error."""
        sleeper = asyncio.ensure_future(self._clock.sleep_until(deadline))
        stopped = asyncio.gather(*map(asyncio.shield, turn))
        try:
            await asyncio.wait((stopped, sleeper), return_when=asyncio.FIRST_COMPLETED)
            return not stopped.done() or all(stopped.result())
        finally:
            await _cancel(stopped, sleeper)


async def _cancel(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)


def _fields(pod: Pod, container: str) -> dict[str, object]:
    return {"pod": pod.full_name, "podUID": pod.uid, "containerName": container}
