"""The etcd cluster that several simulated servers share, its observation, and the election among the servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apiserver_stub.storage.etcd.client as client_module
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.simulation.etcd import Etcd
from apiserver_stub.simulation.etcd_channel import EtcdNetwork
from apiserver_stub.simulation.history import StoreHistory
from apiserver_stub.storage.base import Remove
from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.etcd.store import EtcdStore
from apiserver_stub.storage.record import Record, with_revision, without_revision
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop

_MEMBERS = tuple(f"http://etcd-{number}:2379" for number in range(3))


class EtcdCluster:
    """Cluster of three members, and its faults.

    :param violate: reports a violation.
    """

    arguments: Sequence[str] = (f"--store-servers={','.join(_MEMBERS)}", "--store-compaction-interval=2m")

    def __init__(
        self, seed: object, loop: SimulatedLoop, history: StoreHistory, violate: Callable[[str], None]
    ) -> None:
        self._history, self._violate = history, violate
        self.etcd = Etcd()
        self.etcd.observers.append(self._applied)
        self.network = EtcdNetwork(seed, loop, self.etcd, _MEMBERS)
        self._stores: dict[int, EtcdStore] = {}
        self._latest_store: EtcdStore | None = None
        """Decodes values, also while no server runs."""
        self._elections: dict[int, Leadership] = {}
        self._removed: dict[tuple[str, str, int], bytes] = {}
        """Last states of objects that are being removed, by collection, key and revision before."""
        history.varies_removals = True
        history.observed = self._observed

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        open_store, write, renew = EtcdStore.open, EtcdStore._write, Leadership._renew

        async def observed_open(store: EtcdStore) -> None:
            self._stores[PROCESS.get()] = self._latest_store = store
            await open_store(store)

        def observed_write(store: EtcdStore, name: str, key: str, current: Any, outcome: Any) -> Any:
            if isinstance(outcome, Remove) and current is not None:
                self._removed[name, key, current.revision] = outcome.data
            return write(store, name, key, current, outcome)

        async def observed_renew(election: Leadership, start: float) -> None:
            self._elections[PROCESS.get()] = election
            await renew(election, start)

        return [
            (client_module, "_Endpoint", self.network.endpoint),
            (EtcdStore, "open", observed_open),
            (EtcdStore, "_write", observed_write),
            (Leadership, "_renew", observed_renew),
        ]

    # --- faults -----------------------------------------------------------------------------------------------

    def set_full(self, *, full: bool) -> None:
        """Cause or end failures of writes as without space."""
        self.etcd.full = full

    def crash_in(self, writes: int | None, *, tears: bool = False) -> None:
        """Cause a crash of the process that sends a later write; ``None`` for none.

        :param tears: the power of that server is lost, which does not affect the cluster.
        """
        self.network.crash_in = writes

    def calm(self) -> None:
        """End all faults of the network and the members."""
        network = self.network
        network.latency.factor, network.loss, network.crash_in = 1.0, 0.0, None
        network.down.clear()
        network.lag.clear()
        for process in list(network.isolated):
            network.connect_again(process)

    def crash(self, process: int, drop: Callable[[], None]) -> None:
        """Call *drop*, which ends the process; what it has sent is executed."""
        drop()
        self.ended(process)

    def ended(self, process: int) -> None:
        """Close the connections of a process that has ended."""
        self.network.forget(process)
        self._stores.pop(process, None)
        self._elections.pop(process, None)

    # --- verification -----------------------------------------------------------------------------------------

    def differences(self) -> str:
        """Return the first difference of the copies in the servers to the cluster, or an empty string."""
        for process, store in self._stores.items():
            for name, state in self._history.current.items():
                found = {record.key: record.revision for record in store.collection(name).select()}
                expected = {key: entry.revision for key, entry in state.items()}
                for key in sorted({*found, *expected}):
                    if found.get(key) != expected.get(key):
                        return (
                            f"server process {process} has revision {found.get(key)} of {name} {key} "
                            f"instead of {expected.get(key)}"
                        )
        return ""

    def _observed(self) -> int:
        return min((store.revision for store in self._stores.values()), default=self._history.revision)

    def _applied(self, events: Sequence[kv.Event]) -> None:
        """Record the events of one revision, before any server receives them."""
        leaders = [process for process, election in self._elections.items() if election.leads]
        if len(leaders) > 1:
            self._violate(f"the server processes {leaders} lead at the same time")
        self._history.applied(events[0].kv.mod_revision, list(self._changes(events)))

    def _changes(self, events: Sequence[kv.Event]) -> Iterator[tuple[str, str, Record]]:
        store: Any = self._latest_store
        for event in events if store is not None else ():
            item = event.kv
            location = store._layout.find(item.key.decode())
            if location is None:
                continue
            name, key = location
            before = self._history.current.get(name, {}).get(key)
            if event.type == kv.Event.PUT:
                data, _ = store._codec.read(name, key, item.value)
                kind = "ADDED" if before is None else "MODIFIED"
            elif before is not None:
                data, kind = self._removed.pop((name, key, before.revision), None), "DELETED"
                data = without_revision(before.data) if data is None else data
            else:
                continue
            yield name, kind, Record(key, item.mod_revision, with_revision(data, item.mod_revision))
