"""Steps with faults of several servers and of the etcd cluster that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context

from apiserver_stub.simulation.etcd_cluster import EtcdCluster
from apiserver_stub.simulation.node import Server


class ClusterFaults:
    """Executes these steps.

    :param servers: those that share the etcd cluster.
    """

    def __init__(self, etcd: EtcdCluster, servers: Sequence[Server]) -> None:
        self._etcd, self._network, self._servers = etcd, etcd.network, servers

    def calm(self) -> None:
        """End all faults."""
        self._etcd.calm()
        for server in self._servers:
            self._network.loop.resume(server.process)

    def stop_member(self, which: int, seconds: float) -> None:
        """Stop a member for some time."""
        url = self._network.members[which % len(self._network.members)]
        self._network.stop_member(url)
        self._later(seconds, lambda: self._network.down.discard(url))

    def isolate_server(self, which: int, seconds: float) -> None:
        """Deliver no messages between a server and the cluster for some time."""
        process = self._servers[which % len(self._servers)].process
        if process:
            self._network.isolate(process)
            self._later(seconds, lambda: self._network.connect_again(process))

    def delay_watches(self, which: int, lag: float, seconds: float) -> None:
        """Delay the events of a server's watches for some time, but not its calls."""
        process = self._servers[which % len(self._servers)].process
        if process:
            self._network.lag[process] = lag
            self._later(seconds, lambda: self._network.lag.pop(process, None))

    def pause_server(self, which: int, seconds: float) -> None:
        """Suspend a server for some time."""
        process = self._servers[which % len(self._servers)].process
        if process:
            self._network.loop.pause(process)
            self._later(seconds, lambda: self._network.loop.resume(process))

    def slow_store(self, factor: float, seconds: float) -> None:
        """Slow down the connections to the cluster for some time."""
        self._network.latency.factor = factor
        self._later(seconds, lambda: setattr(self._network.latency, "factor", 1.0))

    def lose_responses(self, probability: float, seconds: float) -> None:
        """Lose responses of writes that were executed."""
        self._network.loss = probability
        self._later(seconds, lambda: setattr(self._network, "loss", 0.0))

    def close_watches(self, which: int) -> None:
        """Close the watches of one server, or of all."""
        processes = [server.process for server in self._servers]
        if which % 2:
            processes = [processes[which % len(processes)]]
        self._network.close_watches(lambda watch: watch.process in processes)

    def _later(self, seconds: float, end: Callable[[], object]) -> None:
        """End a fault after some time."""
        self._network.loop.call_later(seconds, end, context=Context())
