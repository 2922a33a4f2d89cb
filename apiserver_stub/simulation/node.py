"""The server as a process that can crash, with a disk and a network that outlive it."""

from __future__ import annotations

import logging
import random
import ssl
from contextvars import Context
from pathlib import Path
from typing import Any

import aiohttp.connector

import apiserver_stub.egress.connector as egress_module
import apiserver_stub.nodes.agents as agents_module
import apiserver_stub.storage.database as database_module
import apiserver_stub.storage.sqlite as sqlite_module
import apiserver_stub.transport.listener as listener_module
from apiserver_stub.kinds import address_allocation, range_allocation
from apiserver_stub.options import parse
from apiserver_stub.server.running_server import RunningServer
from apiserver_stub.server.startup import start
from apiserver_stub.simulation.disk import DatabaseDisk
from apiserver_stub.simulation.history import StoreHistory
from apiserver_stub.simulation.network import Network, ServerLoop
from apiserver_stub.simulation.services import FindService, ServiceDialer
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.storage.database import checkpoint
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.base.simulation.loop import PROCESS
from nodeagent.base.simulation.trace import Trace
from nodeagent.base.tls import TlsError

_log = logging.getLogger(__name__)
ADMIN, USER = "administrator-token", "user-token"
GROUP = "simulated"
_RESTART_SECONDS = 2.0
DATABASE = "store.db"


class Server:
    """The simulated server.

    :param history: observes the store.
    :param find_service: returns the services that the server calls.
    """

    def __init__(
        self,
        seed: object,
        loop: ServerLoop,
        directory: Path,
        history: StoreHistory,
        trace: Trace,
        clock: SimulatedClock,
        find_service: FindService,
    ) -> None:
        self.loop, self.clock, self.trace = loop, clock, trace
        self._seed, self.history = seed, history
        self.network = Network(seed, loop)
        self._dialer = ServiceDialer(self.network, find_service)
        self._disturbances, self._calm_at = 0, 0.0
        self.directory = directory / "data"
        self.files = SimulatedDisk(seed, self.directory, DATABASE)
        self.database = DatabaseDisk(seed, self.directory / DATABASE)
        self.running: RunningServer | None = None
        self.process = self.starts = 0
        self.restarts = True
        """The server restarts after its process has ended."""
        self.failure: BaseException | None = None
        self._stores: list[SqliteStore] = []
        tokens = directory / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,1,"system:masters"\n{USER},user,2,"{GROUP}"\n')
        self._options = parse(
            [
                f"--data-dir={self.directory}",
                "--advertise-address=192.0.2.10",
                f"--token-auth-file={tokens}",
                "--authorization-mode=Node,RBAC",
                "--max-requests-inflight=24",
                "--max-mutating-requests-inflight=16",
                "--min-request-timeout=600",
                "--shutdown-watch-termination-grace-period=5s",
            ]
        )

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        history, disk, stores, trace = self.history, self.database, self._stores, self.trace
        load, commit, publish = SqliteStore._load, SqliteStore._commit, SqliteStore._publish
        touch, close = SqliteStore._touch, SqliteStore._close_database
        new_session, dialer = egress_module.new_session, self._dialer

        def observed_load(store: SqliteStore) -> None:
            load(store)
            stores.append(store)
            history.loaded(store)

        def observed_commit(store: SqliteStore, batch: list[Any]) -> None:
            history.committing(batch)
            try:
                disk.call(commit, store, batch)
            except Exception as error:
                history.failed()
                trace.add("disk", f"write failed: {error}")
                raise

        def observed_publish(store: SqliteStore, batch: list[Any]) -> None:
            publish(store, batch)
            history.published(batch)

        def observed_checkpoint(path: Path, worth: int) -> None:
            if disk.log_bytes() >= worth:
                trace.add("disk", "checkpoint")
            disk.call(checkpoint, path, worth)

        return [
            (SqliteStore, "_load", observed_load),
            (SqliteStore, "_commit", observed_commit),
            (SqliteStore, "_publish", observed_publish),
            (SqliteStore, "_touch", lambda store: disk.call(touch, store)),
            (SqliteStore, "_close_database", lambda store: disk.call(close, store)),
            (sqlite_module, "checkpoint", observed_checkpoint),
            # Checkpoints are frequent, although the simulated clients write little.
            (sqlite_module, "CHECKPOINT_BYTES", 64 << 10),
            (sqlite_module, "BUSY_BYTES", 256 << 10),
            (database_module, "WAL_LIMIT_BYTES", 512 << 10),
            (listener_module, "_bind", self.network.listen),
            (egress_module, "new_session", lambda _: new_session(dialer)),
            (agents_module, "DirectDialer", lambda: dialer),
            (aiohttp.connector, "monotonic", self.loop.time),
            (address_allocation, "_random", random.Random(f"{self._seed}/addresses")),
            (range_allocation, "_random", random.Random(f"{self._seed}/ranges")),
            # Slow, and no connection uses TLS.
            (ssl.SSLContext, "set_default_verify_paths", lambda context: None),
        ]

    def disturb(self, seconds: float) -> None:
        """Record a fault whose effects last for at most *seconds*."""
        self._disturbances += 1
        self._calm_at = max(self._calm_at, self.loop.time() + seconds)

    def calm(self) -> object:
        """Return a value that is the same at two times if there was no fault between them; ``None`` during one."""
        if self.running is None or self.loop.time() < self._calm_at:
            return None
        return self.process, self._disturbances

    @property
    def ready(self) -> bool:
        return self.running is not None

    def start(self) -> None:
        """Start the server as a new process."""
        self.starts += 1
        self.process = process = self.starts
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
        files = self.database.files()
        self.network.crash(silent=power)
        self.loop.drop(process)
        self.loop.crash_at, self.loop.crashed = None, False
        self._forget_stores()
        self.database.restore(files)
        if power:
            self.files.lose_power()
        self._restart_later()

    def _restart_later(self) -> None:
        self.loop.call_later(_RESTART_SECONDS, self._restart, context=Context())

    def _restart(self) -> None:
        if self.restarts and not self.process:
            self.start()

    def _forget_stores(self) -> None:
        for store in self._stores:
            if store._db is not None:
                store._db.close()
                store._db = None
        self._stores.clear()

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
            self.trace.add("server", f"ready {process} {self.history.revision}")
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
            self.network.crash(silent=False)
            self._forget_stores()
            self.loop.call_soon(self.loop.drop, process, context=Context())
            self._restart_later()


def _prevents_start(error: Exception) -> bool:
    """Return whether *error* may end a server: a file cannot be read or written."""
    return isinstance(error, OSError | StoreUnavailable) or (
        isinstance(error, TlsError) and isinstance(error.__cause__, OSError)
    )
