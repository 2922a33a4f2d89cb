"""The simulated servers: one with a database, or several that share an etcd cluster."""

from __future__ import annotations

import itertools
import random
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp.connector

import apiserver_stub.egress.connector as egress_module
import apiserver_stub.nodes.agents as agents_module
import apiserver_stub.transport.listener as listener_module
from apiserver_stub.kinds import address_allocation, range_allocation
from apiserver_stub.simulation import database
from apiserver_stub.simulation.database import Database
from apiserver_stub.simulation.etcd_cluster import EtcdCluster
from apiserver_stub.simulation.history import StoreHistory
from apiserver_stub.simulation.network import Network, ServerLoop
from apiserver_stub.simulation.node import Server
from apiserver_stub.simulation.services import FindService, ServiceDialer
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.base.simulation.loop import PROCESS
from nodeagent.base.simulation.trace import Trace

ADMIN, USER = "administrator-token", "user-token"
GROUP = "simulated"


class Cluster:
    """The servers, their store and the network.

    :param count: number of the servers; more than one share an etcd cluster.
    :param history: observes the store.
    :param violate: reports a violation.
    :param find_service: returns the services that the servers call.
    """

    def __init__(
        self,
        seed: object,
        count: int,
        loop: ServerLoop,
        directory: Path,
        history: StoreHistory,
        violate: Callable[[str], None],
        trace: Trace,
        clock: SimulatedClock,
        find_service: FindService,
    ) -> None:
        self.loop, self.clock, self.trace = loop, clock, trace
        self._seed = seed
        self.network = Network(seed, loop)
        self._dialer = ServiceDialer(self.network, find_service)
        self._disturbances, self._calm_at, self._stops = 0, 0.0, 0
        tokens = directory / "tokens.csv"
        tokens.write_text(f'{ADMIN},admin,1,"system:masters"\n{USER},user,2,"{GROUP}"\n')
        self.etcd = EtcdCluster(seed, loop, history, violate) if count > 1 else None
        directories = [directory / "data"] if count == 1 else [directory / f"data-{number}" for number in range(count)]
        self.store = self.etcd or Database(seed, directories[0], history, trace)
        processes = itertools.count(1)
        self.servers = [
            Server(
                loop,
                self.network,
                self.store,
                SimulatedDisk(seed, data, database.NAME),
                trace,
                processes,
                [*self._arguments(number, data, tokens), *self.store.arguments],
                lambda: history.revision,
            )
            for number, data in enumerate(directories)
        ]

    def _arguments(self, number: int, data: Path, tokens: Path) -> list[str]:
        return [
            f"--data-dir={data}",
            f"--advertise-address=192.0.2.{10 + number}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--max-requests-inflight=24",
            "--max-mutating-requests-inflight=16",
            "--min-request-timeout=600",
            "--shutdown-watch-termination-grace-period=5s",
        ]

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        new_session, dialer = egress_module.new_session, self._dialer
        return [
            *self.store.replacements(),
            (listener_module, "_bind", self.network.listen),
            (egress_module, "new_session", lambda _: new_session(dialer)),
            (agents_module, "DirectDialer", lambda: dialer),
            (aiohttp.connector, "monotonic", self.loop.time),
            (address_allocation, "_random", random.Random(f"{self._seed}/addresses")),
            (range_allocation, "_random", random.Random(f"{self._seed}/ranges")),
            # Slow, and no connection uses TLS.
            (ssl.SSLContext, "set_default_verify_paths", lambda context: None),
            (socket, "gethostname", self._host_name),
        ]

    def _host_name(self) -> str:
        process = PROCESS.get()
        return next((f"server-{at}" for at, each in enumerate(self.servers) if each.process == process), "simulated")

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Observe the file operations of this process until the end of the block."""
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server.files.mounted())
            yield

    @property
    def failure(self) -> BaseException | None:
        """The first error that must not end a server."""
        return next((server.failure for server in self.servers if server.failure is not None), None)

    def start(self) -> None:
        """Start all servers."""
        for server in self.servers:
            server.start()

    def stop(self) -> None:
        """Shut one of the servers down as with SIGTERM."""
        self._stops += 1
        self.servers[self._stops % len(self.servers)].stop()

    def crash(self, *, power: bool = False) -> None:
        """Drop the server whose callback has been executed; what it has written remains.

        :param power: files that were not synced are lost or torn.
        """
        for server in self.servers:
            if server.process and server.process == self.loop.current_process:
                server.crash(power=power)

    def end(self) -> None:
        """Drop all servers at the end of the simulation."""
        for server in self.servers:
            server.restarts = False
            server.crash()

    def set_full(self, *, full: bool) -> None:
        """Fill the disks of the servers and of their store, or empty them."""
        self.store.set_full(full=full)
        for server in self.servers:
            server.files.full = full

    def disturb(self, seconds: float) -> None:
        """Record a fault whose effects last for at most *seconds*."""
        self._disturbances += 1
        self._calm_at = max(self._calm_at, self.loop.time() + seconds)

    def calm(self) -> object:
        """Return a value that is the same at two times if there was no fault between them; ``None`` during one."""
        if any(server.running is None for server in self.servers) or self.loop.time() < self._calm_at:
            return None
        return *(server.process for server in self.servers), self._disturbances
