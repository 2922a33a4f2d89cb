"""Holds the shutdown back while pods end, group by group."""

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
from nodeagent.base.metrics import Gauge
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import KillReason, Rejection
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
MESSAGE = "Pod was terminated in response to imminent node shutdown."
BEGUN = "Shutdown manager detected shutdown event"
CANCELLED = "Shutdown manager detected shutdown cancellation"
STATE_FILE = "graceful_node_shutdown_state"
BEGAN_AT = Gauge("graceful_shutdown_start_time_seconds", "When the last shutdown of the node began, since the epoch.")
ENDED_AT = Gauge("graceful_shutdown_end_time_seconds", "When its pods had ended, since the epoch; 0 until then.")
FLUSH_SECONDS = 3.0
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


class ShutdownSession(Protocol):
    """What is asked of :class:`~nodeagent_plugins.shutdown.logind.Session`."""

    shutdowns: asyncio.Queue[bool | None]

    async def watch(self) -> None: ...

    async def inhibit(self) -> None: ...

    def release(self) -> None: ...

    async def allow_delay(self, seconds: int) -> None: ...


class ShutdownAuthority(Protocol):
    """What is asked of :class:`~nodeagent_plugins.shutdown.logind.Logind`."""

    def session(self) -> AbstractAsyncContextManager[ShutdownSession]: ...


class ShutdownManager:
    """Ends the pods of a node that shuts down, refuses new ones and reports the node as not Ready.

    :param tell_problem: called with what keeps it from that, and with an empty text once nothing does.
    """

    name = "shutdown"

    def __init__(
        self,
        periods: ShutdownPeriods,
        context: AgentContext,
        authority: ShutdownAuthority,
        tell_problem: Callable[[str], None],
    ) -> None:
        self._periods, self._context, self._authority = periods, context, authority
        self._tell_problem = tell_problem
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
        """Follow logind until cancelled; a lost connection is made again with growing pauses."""
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, jitter=0)
        await self._recall()
        while True:
            try:
                await self._follow(backoff)
            except LogindError as error:
                if str(error) != self._problem:
                    _log.error("Pods would not end in order when the node shuts down", extra={"err": str(error)})
                    self._tell_problem(str(error))
                self._problem = str(error)
            await self._context.clock.sleep(backoff.next())

    async def _follow(self, backoff: Backoff) -> None:
        """Hold the lock, and end the pods each time a shutdown begins; returns when the bus is gone."""
        async with self._authority.session() as session:
            await session.watch()
            if session.shutdowns.empty():  # no lock can be had once a shutdown has begun
                await session.allow_delay(self._periods.total())
                await session.inhibit()
                if self._shutting_down:
                    self._tell(CANCELLED, shutting_down=False)
            self._recovered(backoff)
            ending: asyncio.Task[None] | None = None
            try:
                while (begins := await session.shutdowns.get()) is not None:
                    if begins and ending is None:
                        self._tell(BEGUN, shutting_down=True)
                        ending = self._context.tasks.start(self._end_pods(session), "shutdown")
                    elif not begins:
                        await _cancel(ending)
                        ending = None
                        self._tell(CANCELLED, shutting_down=False)
                        await session.inhibit()
                if ending is not None:  # the lock holds without the bus, and what was begun is brought to its end
                    await asyncio.wait({ending})
            finally:
                await _cancel(ending)
        raise LogindError("the connection to the system's message bus was lost")

    def _recovered(self, backoff: Backoff) -> None:
        backoff.reset()
        self._problem = ""
        self._tell_problem("")
        _log.info("Pods end in order when the node shuts down", extra={"seconds": self._periods.total()})

    def _tell(self, note: str, *, shutting_down: bool) -> None:
        self._shutting_down = shutting_down
        _log.info(note)
        self._context.recorder.record(self._context.node_reference(), EventType.NORMAL, "Shutdown", note)
        self._context.trigger_node_status()

    # --- ending pods ----------------------------------------------------------------------------------------

    async def _end_pods(self, session: ShutdownSession) -> None:
        """End all pods, tell the API server, then let the shutdown go on."""
        context, started = self._context, wire_time(self._context.clock.wall())
        try:
            await self._keep_state(started, "")
            groups = shutdown_groups(self._periods, map(ShutdownPod.of, context.pods.active()))
            until = context.clock.now() + self._periods.total(group.seconds for group in groups)
            for index, group in enumerate(groups):
                await self._end_group(group, groups[index:], until)
            await context.flush_statuses(FLUSH_SECONDS)
            await context.recorder.flush(FLUSH_SECONDS)
            await self._keep_state(started, wire_time(context.clock.wall()))
        finally:
            session.release()
            _log.info("Pods have ended, the shutdown may go on")

    async def _end_group(self, group: ShutdownGroup, coming: Sequence[ShutdownGroup], until: float) -> None:
        clock, pods = self._context.clock, self._context.pods
        left = until - clock.now()
        active = {pod.uid for pod in pods.active()}
        self._left = {pod.uid for pod in group.pods} & active
        self._ended.clear()
        for pod in group.pods:
            if pod.uid in self._left:
                grace = grace_of(pod, group, left)
                _log.info("Pod ends", extra={"pod": f"{pod.namespace}/{pod.name}", "grace_seconds": grace})
                pods.kill(pod.uid, KillReason.SHUTDOWN, MESSAGE, status_reason=STATUS_REASON, grace_seconds=grace)
        if self._left:
            await wait_for(self._ended, clock, share_of(coming, left))
        if self._left:
            names = _names(pod for pod in group.pods if pod.uid in self._left)
            _log.warning("Pods did not end in time", extra={"priority": group.priority, "pods": names})

    async def _keep_state(self, started: str, ended: str) -> None:
        """Write when the shutdown began and, once it is over, ended; the next start tells whether it was in order."""
        _show(started, ended)
        file = self._context.root_dir / STATE_FILE
        content = json.dumps({"startTime": started, "endTime": ended or None})
        try:
            await asyncio.to_thread(file.write_text, content, encoding="ascii")
        except OSError as error:
            _log.warning("State of the shutdown cannot be kept", extra={"file": str(file), "err": str(error)})

    async def _recall(self) -> None:
        """Show the times of the shutdown that went before, if one did."""
        file = self._context.root_dir / STATE_FILE
        try:
            kept = json.loads(await asyncio.to_thread(file.read_bytes))
            _show(kept["startTime"] or "", kept["endTime"] or "")
        except FileNotFoundError:
            return
        except (OSError, ValueError, LookupError, TypeError) as error:
            _log.warning("State of the last shutdown is no good", extra={"file": str(file), "err": str(error)})


def _show(started: str, ended: str) -> None:
    """Show two times of the wire, each empty for none.

    :raises ValueError: one is no time.
    """
    for gauge, time in ((BEGAN_AT, started), (ENDED_AT, ended)):
        gauge.set(datetime.fromisoformat(time).timestamp() if time else 0)


async def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})


def _names(pods: Iterable[ShutdownPod]) -> str:
    return ", ".join(f"{pod.namespace}/{pod.name}" for pod in pods)
