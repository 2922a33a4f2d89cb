"""A server as a process that can crash, with files that outlive it."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from pathlib import Path
from typing import Protocol

from apiserver_stub.options import parse
from apiserver_stub.server.holder_identity import LOCK
from apiserver_stub.server.running_server import RunningServer
from apiserver_stub.server.startup import start
from apiserver_stub.simulation.network import Network, ServerLoop
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.base.simulation.loop import PROCESS
from nodeagent.base.simulation.trace import Trace
from nodeagent.base.tls import TlsError

_log = logging.getLogger(__name__)
_RESTART_SECONDS = 2.0


class ProcessStore(Protocol):
    """Store that outlives the processes of servers."""

    def crash(self, process: int, drop: Callable[[], None]) -> None:
        """Call *drop*, which ends the process, and retain only what it has written."""
        ...

    def ended(self, process: int) -> None:
        """Close the connections of a process that has ended."""
        ...


class Server:
    """A simulated server.

    :param arguments: its options.
    :param files: its data directory.
    :param processes: numbers of the processes, shared by all servers.
    :param revision: returns the revision of the store, for the trace.
    """

    def __init__(
        self,
        loop: ServerLoop,
        network: Network,
        store: ProcessStore,
        files: SimulatedDisk,
        trace: Trace,
        processes: Iterator[int],
        arguments: Sequence[str],
        revision: Callable[[], int],
    ) -> None:
        self.loop, self.trace, self.files = loop, trace, files
        self._network, self._store, self._processes, self._revision = network, store, processes, revision
        self.running: RunningServer | None = None
        self.process = 0
        self.restarts = True
        """The server restarts after its process has ended."""
        self.failure: BaseException | None = None
        self._options = parse(arguments)

    @property
    def data_dir(self) -> Path:
        return self._options.data_dir

    def start(self) -> None:
        """Start the server as a new process."""
        self.process = process = next(self._processes)
        self.trace.add("server", f"start {process}")
        context = Context()
        context.run(PROCESS.set, process)
        self.loop.create_task(self._run(process), name="server", context=context)

    def stop(self) -> None:
        """Shut the process down as with SIGTERM."""
        if self.running is not None:
            running, process = self.running, self.process
            self.running = None
            context = Context()
            context.run(PROCESS.set, process)
            self.trace.add("server", f"stop {process}")
            self.loop.create_task(self._shut_down(running, process), name="stop", context=context)

    def crash(self, *, power: bool = False) -> None:
        """Drop the process at the current callback; what it has written remains.

        :param power: files that were not synced are lost or torn.
        """
        if not self.process:
            return
        process, self.process, self.running = self.process, 0, None
        self.trace.add("server", f"crash {process}" + (" power" if power else ""))

        def drop() -> None:
            self._network.crash(process, silent=power)
            self.loop.drop(process)
            self.loop.crash_at, self.loop.crashed = None, False
            _release(self.data_dir / LOCK)

        self._store.crash(process, drop)
        if power:
            self.files.lose_power()
        self._restart_later()

    def _restart_later(self) -> None:
        self.loop.call_later(_RESTART_SECONDS, self._restart, context=Context())

    def _restart(self) -> None:
        if self.restarts and not self.process:
            self.start()

    async def _shut_down(self, running: RunningServer, process: int) -> None:
        try:
            await running.stop()
            self.trace.add("server", f"end {process}")
        except Exception as error:
            if process in self.loop.dead:
                return
            _log.exception("Server failed to stop")
            self.failure = error
        finally:
            self._ended(process)

    async def _run(self, process: int) -> None:
        try:
            self.running = await start(self._options)
            self.trace.add("server", f"ready {process} {self._revision()}")
        except Exception as error:
            if process in self.loop.dead:
                return
            if _prevents_start(error):
                self.trace.add("server", f"failed {process} {type(error).__name__}")
                _log.exception("Server failed to start")
            else:
                _log.exception("Server failed")
                self.failure = error
                self.trace.add("server", f"fail {process}: {error!r}")
            self._ended(process)

    def _ended(self, process: int) -> None:
        """Restart the server after its process has ended."""
        if self.process == process and process not in self.loop.dead:
            self.process, self.running = 0, None
            self._network.crash(process, silent=False)
            self._store.ended(process)
            self.loop.call_soon(self.loop.drop, process, context=Context())
            self._restart_later()


def _release(lock: Path) -> None:
    """Close the descriptors of a lock file, as the end of their process does."""
    for descriptor in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # The directory is open while it is read.
            if descriptor.readlink() == lock:
                os.close(int(descriptor.name))


def _prevents_start(error: Exception) -> bool:
    """Return whether *error* may end a server: a file cannot be read or written."""
    return isinstance(error, OSError | StoreUnavailable) or (
        isinstance(error, TlsError) and isinstance(error.__cause__, OSError)
    )
