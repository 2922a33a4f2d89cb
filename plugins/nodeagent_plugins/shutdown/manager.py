"""Shutdown manager: delay the shutdown while pods are terminated, group by group."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol

from nodeagent import hookimpl
from nodeagent.base.aio import Backoff
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Gauge
from nodeagent.base.release import Release
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.persistent_volumes import StatefulVolumeManager
from nodeagent.contracts.pods import KillReason, Rejection, undecided_pods
from nodeagent.contracts.shutdown import (
    ShutdownGroup,
    ShutdownPeriods,
    ShutdownPod,
    grace_of,
    share_of,
    shutdown_groups,
)
from nodeagent.model.meta import wire_time
from nodeagent.model.pod import Pod
from nodeagent_plugins.shutdown.logind import LogindError

_log = logging.getLogger(__name__)

NOT_READY = "node is shutting down"
REJECTION = Rejection("NodeShutdown", "Pod was rejected as the node is shutting down.")
STATUS_REASON = "Terminated"
VOLUMES_SINCE = Release(1, 31)
CHECK_SECONDS = 0.5
SOURCES_SECONDS = 5.0
"""Longest wait for sources that have not published their pods since the start of the agent."""
MESSAGE = "Pod was terminated in response to imminent node shutdown."
DETECTED = "Shutdown manager detected shutdown event"
CANCELLED = "Shutdown manager detected shutdown cancellation"
STATE_FILE = "graceful_node_shutdown_state"
STARTED_AT = Gauge(
    "graceful_shutdown_start_time_seconds", "Last graceful shutdown start time since unix epoch in seconds"
)
ENDED_AT = Gauge("graceful_shutdown_end_time_seconds", "Last graceful shutdown end time since unix epoch in seconds")
FLUSH_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


class ShutdownSession(Protocol):
    """Interface of :class:`~nodeagent_plugins.shutdown.logind.Session`."""

    shutdowns: asyncio.Queue[bool | None]

    async def watch(self) -> None: ...

    async def inhibit(self) -> None: ...

    def release(self) -> None: ...

    async def allow_delay(self, seconds: int) -> None: ...


class ShutdownInhibitor(Protocol):
    """Interface of :class:`~nodeagent_plugins.shutdown.logind.Logind`."""

    def session(self) -> AbstractAsyncContextManager[ShutdownSession]: ...


class ShutdownManager:
    """Terminates the pods of a node that shuts down, rejects new ones and reports the node as not Ready.

    :param report_problem: called with the reason why graceful shutdown is unavailable, empty once it is available.
    """

    name = "shutdown"

    def __init__(
        self,
        periods: ShutdownPeriods,
        context: AgentContext,
        inhibitor: ShutdownInhibitor,
        report_problem: Callable[[str], None],
    ) -> None:
        self._periods, self._context, self._inhibitor = periods, context, inhibitor
        self._report_problem = report_problem
        self._shutting_down = False
        self._left: set[str] = set()
        self._ended = asyncio.Event()
        self._problem = ""

    # --- hooks ----------------------------------------------------------------------------------------------

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    @hookimpl(trylast=True)
    async def nodeagent_admit_pod(self) -> Rejection | None:
        return REJECTION if self._shutting_down else None

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport | None:
        return NodeReport(not_ready=(NOT_READY,)) if self._shutting_down else None

    @hookimpl
    async def nodeagent_pod_terminated(self, pod: Pod) -> None:
        self._left.discard(pod.uid)
        if not self._left:
            self._ended.set()

    # --- the loop -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled; a lost connection is reopened with increasing delays."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, jitter=0)
        await self._recall()
        while True:
            try:
                await self._follow(backoff)
            except LogindError as error:
                if str(error) != self._problem:
                    _log.error("Failed to start node shutdown manager", extra={"err": str(error)})
                    self._report_problem(str(error))
                self._problem = str(error)
            await self._context.clock.sleep(backoff.next())

    async def _follow(self, backoff: Backoff) -> None:
        """Hold the lock, and terminate the pods when a shutdown starts; return when the bus is lost."""
        async with self._inhibitor.session() as session:
            await session.watch()
            if session.shutdowns.empty():  # No lock is available during a shutdown.
                await session.allow_delay(self._periods.total())
                await session.inhibit()
                if self._shutting_down:
                    self._set_state(CANCELLED, shutting_down=False)
            self._recovered(backoff)
            terminating: asyncio.Task[None] | None = None
            try:
                while (starting := await session.shutdowns.get()) is not None:
                    if starting and terminating is None:
                        self._set_state(DETECTED, shutting_down=True)
                        terminating = self._context.tasks.start(self._end_pods(session), "shutdown")
                    elif not starting:
                        await _cancel(terminating)
                        terminating = None
                        self._set_state(CANCELLED, shutting_down=False)
                        await session.inhibit()
                if terminating is not None:  # The lock does not depend on the bus, so the termination completes.
                    await asyncio.wait({terminating})
            finally:
                await _cancel(terminating)
        raise LogindError("lost the connection to the system bus")

    def _recovered(self, backoff: Backoff) -> None:
        backoff.reset()
        self._problem = ""
        self._report_problem("")
        _log.info("Creating node shutdown manager", extra={"gracePeriod": self._periods.total()})

    def _set_state(self, note: str, *, shutting_down: bool) -> None:
        self._shutting_down = shutting_down
        message = "Shutdown manager detected new shutdown event" if shutting_down else CANCELLED
        _log.log(v_level(1), message)  # wording: ok
        self._context.recorder.record(self._context.node_reference(), EventType.NORMAL, "Shutdown", note)
        self._context.trigger_node_status()

    # --- termination of pods --------------------------------------------------------------------------------

    async def _end_pods(self, session: ShutdownSession) -> None:
        """Terminate all pods, report to the API server, then let the shutdown continue.

        Pods that are published while others are terminated are terminated, too: after a restart of the agent, it
        receives those of the API server later than the shutdown.
        """
        context, started = self._context, wire_time(self._context.clock.wall())
        since, known, periods = context.clock.now(), set[str](), dict[int, int]()
        try:
            await self._keep_state(started, "")
            await self._wait_for_sources()
            while True:
                pods = [pod for pod in self._remaining() if pod.uid not in known]
                known.update(pod.uid for pod in pods)
                groups = shutdown_groups(self._periods, map(ShutdownPod.of, pods))
                periods |= {group.priority: group.seconds for group in groups}
                for index, group in enumerate(groups):
                    await self._end_group(group, groups[index:], since + self._periods.total(periods.values()))
                await context.flush_statuses(FLUSH_SECONDS)
                await context.recorder.flush(FLUSH_SECONDS)
                if known.issuperset(pod.uid for pod in self._remaining()):
                    break
            await self._keep_state(started, wire_time(context.clock.wall()))
        finally:
            session.release()
            _log.log(v_level(1), "Shutdown manager completed processing shutdown event, node will shutdown shortly")

    def _remaining(self) -> list[Pod]:
        """Return the pods that may have running containers."""
        return [*self._context.pods.active(), *undecided_pods(self._context.pods)]

    async def _wait_for_sources(self) -> None:
        """Wait until all sources have published their pods, but only for a short time."""
        clock = self._context.clock
        until = clock.now() + min(SOURCES_SECONDS, self._periods.total())
        while not self._context.pods.all_sources_ready and clock.now() < until:
            await clock.sleep(CHECK_SECONDS)

    async def _end_group(self, group: ShutdownGroup, coming: Sequence[ShutdownGroup], until: float) -> None:
        clock, pods = self._context.clock, self._context.pods
        left = until - clock.now()
        share = share_of(coming, left)
        group_until = clock.now() + share
        self._left = {pod.uid for pod in group.pods} & {pod.uid for pod in self._remaining()}
        self._ended.clear()
        for pod in group.pods:
            if pod.uid in self._left:
                grace = grace_of(pod, group, left)
                fields = {"pod": f"{pod.namespace}/{pod.name}", "gracePeriod": grace}
                _log.log(v_level(1), "Shutdown manager killing pod with gracePeriod", extra=fields)
                pods.kill(pod.uid, KillReason.SHUTDOWN, MESSAGE, status_reason=STATUS_REASON, grace_seconds=grace)
        if self._left:
            await wait_for(self._ended, clock, share)
        if self._left:
            names = _names(pod for pod in group.pods if pod.uid in self._left)
            fields = {"gracePeriod": group.seconds, "priority": group.priority, "pods": names}
            _log.log(v_level(1), "Shutdown manager pod killing time out", extra=fields)
        await self._wait_for_volumes(group, group_until)

    async def _wait_for_volumes(self, group: ShutdownGroup, until: float) -> None:
        """Wait until the volumes of the group are unmounted, since 1.31: their drivers are in a later group."""
        volumes, clock = self._context.volumes, self._context.clock
        if self._context.release.release < VOLUMES_SINCE or not isinstance(volumes, StatefulVolumeManager):
            return
        while mounted := [pod for pod in group.pods if volumes.states(pod.uid)]:
            if clock.now() >= until:
                fields = {"gracePeriod": group.seconds, "priority": group.priority, "pods": _names(mounted)}
                _log.error("Failed to unmount volumes before the shutdown", extra=fields)
                return
            await clock.sleep(min(CHECK_SECONDS, until - clock.now()))

    async def _keep_state(self, started: str, ended: str) -> None:
        """Write the start time and, once complete, the end time; the next start exposes them as metrics."""
        _show(started, ended)
        file = self._context.root_dir / STATE_FILE
        content = json.dumps({"startTime": started, "endTime": ended or None})
        try:
            await asyncio.to_thread(file.write_text, content, encoding="ascii")
        except OSError as error:
            _log.error("Failed to store graceful shutdown state", extra={"path": str(file), "err": str(error)})

    async def _recall(self) -> None:
        """Expose the times of the previous shutdown, if any."""
        file = self._context.root_dir / STATE_FILE
        try:
            kept = json.loads(await asyncio.to_thread(file.read_bytes))
            _show(kept["startTime"] or "", kept["endTime"] or "")
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            _log.error("Failed to load graceful shutdown state", extra={"path": str(file), "err": str(error)})


def _show(started: str, ended: str) -> None:
    """Set the gauges to two API timestamps; an empty one is 0.

    :raises ValueError: a timestamp is invalid.
    """
    for gauge, time in ((STARTED_AT, started), (ENDED_AT, ended)):
        gauge.set(datetime.fromisoformat(time).timestamp() if time else 0)


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})


def _names(pods: Iterable[ShutdownPod]) -> str:
    return ", ".join(f"{pod.namespace}/{pod.name}" for pod in pods)
