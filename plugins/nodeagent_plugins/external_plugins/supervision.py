"""Background loop of one plugin: start or reach its process, connect, and repeat after each failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.metrics import Counter, Gauge
from nodeagent.base.plugin_rpc import is_socket
from nodeagent.errors import NodeAgentError
from nodeagent_plugins.external_plugins.process import Executable, Process, StartError
from nodeagent_plugins.external_plugins.session import NegotiationError, NotListening, Session

_POLL_SECONDS = 0.05
_RECONNECT_SECONDS, _MAX_RECONNECT_SECONDS = 0.5, 10.0
_STABLE_SECONDS = 60.0
"""The back-off is reset after a connection that has lasted this long."""
_EXIT_SECONDS = 0.5
_MAX_OUTPUT = 500
"""Number of characters of the last line of output in the reason of a failure."""

_CONNECTED = Gauge(
    "nodeagent_plugin_connected",
    "1 if the out-of-process plugin is connected, otherwise 0.",
    ("plugin",),
    prefixed=False,
)
_CONNECTIONS = Counter(
    "nodeagent_plugin_connections_total",
    "Number of connections to the out-of-process plugin.",
    ("plugin",),
    prefixed=False,
)
_STARTS = Counter(
    "nodeagent_plugin_process_starts_total",
    "Number of starts of the out-of-process plugin by the agent.",
    ("plugin",),
    prefixed=False,
)

_log = logging.getLogger(__name__)


class Supervisor:
    """Loop that keeps a session connected; implements :class:`~nodeagent.contracts.background.BackgroundLoop`.

    :param run_once: connects the session and returns the reason why the connection has ended.
    """

    name = "connection"

    def __init__(
        self, session: Session, run_once: Callable[[], Awaitable[str]], backoff: Backoff, clock: Clock
    ) -> None:
        self._session, self._run_once, self._backoff, self._clock = session, run_once, backoff, clock

    async def run(self) -> None:
        """Run until cancelled."""
        plugin = self._session.plugin.name
        _CONNECTED.set(0, plugin)
        last = ""
        while True:
            self._session.starting()
            started = self._clock.now()
            try:
                reason = await self._run_once()
            except (StartError, NegotiationError, NodeAgentError, OSError) as error:
                reason = str(error)
            finally:
                _CONNECTED.set(0, plugin)
            if self._clock.now() - started >= _STABLE_SECONDS:
                self._backoff.reset()
            seconds = self._backoff.next()
            if reason != last:
                _log.error(
                    "Out-of-process plugin failed",
                    extra={"plugin": plugin, "err": reason, "retrySeconds": round(seconds, 1)},
                )
                last = reason
            self._session.failed(reason)
            await self._clock.sleep(seconds)


def supervise_socket(session: Session, clock: Clock) -> Supervisor:
    """Return the loop for a plugin whose socket another process serves."""
    socket = Path(session.plugin.socket)

    async def run_once() -> str:
        if not await asyncio.to_thread(is_socket, str(socket)):
            return f"{socket} is not a socket, or does not exist"
        return await _use(session, socket)

    return Supervisor(session, run_once, Backoff(_RECONNECT_SECONDS, _MAX_RECONNECT_SECONDS, jitter=0.5), clock)


def supervise_executable(session: Session, make: Callable[[], Awaitable[Executable]], clock: Clock) -> Supervisor:
    """Return the loop for a plugin whose executable the agent starts.

    :param make: returns the executable; raises :class:`StartError`.
    """
    plugin = session.plugin

    async def run_once() -> str:
        executable = await make()
        async with executable.running() as process:
            _STARTS.inc(plugin.name)
            _log.info("Started out-of-process plugin", extra={"plugin": plugin.name, "pid": process.pid})
            reason = await _until_failed(session, executable.socket, process, clock)
        # Only now has the output of the process been read.
        last_line = executable.last_line[:_MAX_OUTPUT]
        return f"{reason}; last output: {last_line}" if last_line else reason

    backoff = Backoff(plugin.restart_seconds, plugin.max_restart_seconds, jitter=0.5)
    return Supervisor(session, run_once, backoff, clock)


async def _until_failed(session: Session, socket: Path, process: Process, clock: Clock) -> str:
    """Use the socket of *process* until it exits or the connection is lost; return the reason."""
    serving = asyncio.ensure_future(_use_when_served(session, socket, clock))
    exited = asyncio.ensure_future(process.exited.wait())
    try:
        await asyncio.wait((serving, exited), return_when=asyncio.FIRST_COMPLETED)
        if not exited.done():  # A process that crashes closes the connection first.
            await asyncio.wait((exited,), timeout=_EXIT_SECONDS)
        return process.result() if exited.done() else serving.result()
    finally:
        for task in (serving, exited):
            task.cancel()
        await asyncio.gather(serving, exited, return_exceptions=True)


async def _use_when_served(session: Session, socket: Path, clock: Clock) -> str:
    """Use the socket once the process accepts connections, within its start time."""
    seconds = session.plugin.start_seconds
    due = clock.now() + seconds
    while clock.now() < due:
        if await asyncio.to_thread(is_socket, str(socket)):
            try:
                return await _use(session, socket)
            except NotListening:  # The socket exists before the plugin listens on it.
                pass
        await clock.sleep(_POLL_SECONDS)
    return f"did not serve its socket within {seconds:g} s"


async def _use(session: Session, socket: Path) -> str:
    async with session.opened(str(socket)) as connection:
        _CONNECTIONS.inc(session.plugin.name)
        _CONNECTED.set(1, session.plugin.name)
        return await session.watch(connection)
