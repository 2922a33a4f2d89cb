"""Tests for the observation of the simulated etcd cluster, and for the end of its faults."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from contextvars import Context
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from apiserver_stub.apimachinery import media
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.simulation.cluster_faults import ClusterFaults
from apiserver_stub.simulation.collections import CONFIG_MAPS
from apiserver_stub.simulation.etcd_cluster import EtcdCluster
from apiserver_stub.storage.base import Outcome, Put, Remove, StoreUnavailable
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import Encryption
from apiserver_stub.storage.etcd.client import EtcdClient, TlsFiles
from apiserver_stub.storage.etcd.store import EtcdStore
from apiserver_stub.storage.layout import Layout
from nodeagent.base.identity import Identity
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop
from tests.unit.apiserver_stub.simulation.stored import Stored

URLS = [f"http://etcd-{number}:2379" for number in range(3)]
LAYOUT = Layout("/registry", {CONFIG_MAPS: "configmaps"})


def data(name: str, **fields: Any) -> bytes:
    obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "ns"}, **fields}
    return json.dumps(obj, separators=(",", ":")).encode()


class Harness:
    """Two servers that have opened the store."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop, self.stored = loop, Stored()
        self.history = self.stored.invariants.history
        self.cluster = EtcdCluster(1, loop, self.history, self.stored.violations.report)
        self.stores: dict[int, EtcdStore] = {}
        self.faults: ClusterFaults

    def open(self) -> None:
        for process in (1, 2):
            codec = StorageCodec(LAYOUT, Encryption(), Identity(), media.JSON)
            self.stores[process] = EtcdStore(EtcdClient(URLS, TlsFiles()), LAYOUT, codec, compaction_seconds=0)
            self.run(process, self.stores[process].open())
        servers: Any = [SimpleNamespace(process=process) for process in self.stores]
        self.faults = ClusterFaults(self.cluster, servers)

    def run(self, process: int, function: Coroutine[Any, Any, Any]) -> Any:
        context = Context()
        context.run(PROCESS.set, process)
        return self.loop.run_until_complete(self.loop.create_task(function, context=context))

    def write(self, process: int, name: str, outcome: Outcome) -> None:
        self.run(process, self.stores[process].update(CONFIG_MAPS, f"ns/{name}", lambda _: outcome))

    def fails(self, process: int) -> bool:
        try:
            self.write(process, "probe", Put(data("probe", data={"at": str(self.loop.time())})))
        except StoreUnavailable:
            return True
        return False

    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    found = Harness(loop)
    patches = [patch.object(owner, name, value) for owner, name, value in found.cluster.replacements()]
    for each in patches:
        each.start()
    found.open()
    found.wait(1.0)
    yield found
    for process in found.stores:
        loop.drop(process)
    for each in patches:
        each.stop()
    found.wait(0.0)
    asyncio.set_event_loop(None)
    loop.close()


def test_writes_of_all_servers_are_recorded(harness: Harness) -> None:
    harness.write(1, "a", Put(data("a")))
    harness.write(2, "a", Put(data("a", data={"k": "v"})))
    harness.write(1, "a", Remove(data("a", data={"k": "last"})))

    changes = [(each.type, each.key, each.object().get("data")) for each in harness.history.changes(CONFIG_MAPS, 0)]
    assert changes == [
        ("ADDED", "ns/a", None),
        ("MODIFIED", "ns/a", {"k": "v"}),
        ("DELETED", "ns/a", {"k": "last"}),
    ]
    assert harness.stored.violation == ""


def test_keys_that_are_not_served_advance_only_the_revision(harness: Harness) -> None:
    client = EtcdClient(URLS, TlsFiles())
    harness.run(1, client.put(b"/registry/other/key", b"", expected=0))

    assert (harness.history.revision, harness.history.current) == (2, {})


def test_copies_of_the_servers_are_compared(harness: Harness) -> None:
    harness.write(1, "a", Put(data("a")))
    harness.wait(1.0)
    assert harness.cluster.differences() == ""

    harness.cluster.network.isolate(2)
    harness.write(1, "b", Put(data("b")))
    harness.wait(1.0)

    assert harness.cluster.differences() == "server process 2 has revision None of core/configmaps ns/b instead of 3"
    harness.cluster.calm()
    harness.wait(1.0)
    assert harness.cluster.differences() == ""


def test_two_leaders_are_a_violation(harness: Harness) -> None:
    for process, leads in ((1, True), (2, False)):
        election: Any = SimpleNamespace(leads=leads, _may_acquire=lambda _: False, _leases=CONFIG_MAPS, _key="ns/lease")
        election._store = harness.stores[process]
        election._lease = lambda lease: lease
        harness.write(1, "lease", Put(data("lease", spec={"process": process})))
        harness.run(process, Leadership._renew(election, 0.0))
    harness.write(1, "a", Put(data("a")))
    assert harness.stored.violation == ""

    harness.cluster._elections[2] = SimpleNamespace(leads=True)  # type: ignore[assignment]
    harness.write(1, "b", Put(data("b")))

    assert harness.stored.violation == "the server processes [1, 2] lead at the same time"


def test_process_that_has_crashed_is_forgotten(harness: Harness) -> None:
    calls: list[str] = []
    harness.cluster.crash(2, lambda: calls.append("drop"))
    harness.cluster.network.isolate(2)
    harness.write(1, "a", Put(data("a")))

    assert (calls, harness.cluster.differences()) == (["drop"], "")


@pytest.mark.parametrize(
    ("kind", "arguments", "affected"),
    [
        ("stop_member", [{"which": 0}, {"which": 4}], [True, True]),
        ("isolate_server", [{"which": 3}], [False, True]),
        ("lose_responses", [{"probability": 1.0}], [True, True]),
    ],
)
def test_fault_ends_after_its_time(harness: Harness, kind: str, arguments: list[Any], affected: list[bool]) -> None:
    for each in arguments:
        getattr(harness.faults, kind)(**each, seconds=60.0)
    assert [harness.fails(process) for process in (1, 2)] == affected

    harness.wait(70.0)

    assert [harness.fails(process) for process in (1, 2)] == [False, False]


def test_events_of_one_server_are_delayed_for_some_time(harness: Harness) -> None:
    def observed() -> list[bool]:
        return [store.collection(CONFIG_MAPS).get("ns/a") is not None for store in harness.stores.values()]

    harness.faults.delay_watches(1, 5.0, 60.0)
    harness.write(1, "a", Put(data("a")))
    harness.wait(4.0)
    assert observed() == [True, False]
    harness.wait(2.0)
    assert observed() == [True, True]

    harness.wait(60.0)
    harness.write(1, "a", Remove(data("a")))
    harness.wait(1.0)
    assert observed() == [False, False]


@pytest.mark.parametrize("by", ["time", "calm"])
def test_suspended_server_continues(harness: Harness, by: str) -> None:
    harness.faults.pause_server(1, 60.0)
    harness.write(1, "a", Put(data("a")))
    harness.wait(5.0)
    assert harness.stores[2].collection(CONFIG_MAPS).get("ns/a") is None

    if by == "calm":
        harness.faults.calm()
    else:
        harness.wait(60.0)
    harness.wait(1.0)

    assert harness.stores[2].collection(CONFIG_MAPS).get("ns/a") is not None


def test_all_faults_end_together(harness: Harness) -> None:
    harness.faults.slow_store(100.0, 60.0)
    harness.cluster.crash_in(5)
    harness.faults.stop_member(0, 1000.0)
    harness.faults.isolate_server(0, 1000.0)
    harness.faults.lose_responses(0.5, 1000.0)
    harness.faults.delay_watches(0, 5.0, 1000.0)

    harness.faults.calm()

    network = harness.cluster.network
    assert (network.latency.factor, network.loss, network.crash_in) == (1.0, 0.0, None)
    assert (network.down, network.isolated, network.lag) == (set(), set(), {})


@pytest.mark.parametrize(("which", "closed"), [(0, [1, 2]), (1, [2]), (3, [2])])
def test_watches_of_one_server_or_of_all_are_closed(harness: Harness, which: int, closed: list[int]) -> None:
    before = {watch.process: watch for watch in harness.cluster.network.watches}
    harness.faults.close_watches(which)
    harness.wait(5.0)

    after = {watch.process: watch for watch in harness.cluster.network.watches}
    assert [process for process in (1, 2) if before[process] is not after[process]] == closed


def test_last_states_of_removed_objects_are_not_retained(harness: Harness) -> None:
    harness.write(1, "a", Put(data("a")))
    harness.write(1, "a", Remove(data("a")))

    assert not harness.cluster._removed


def test_changes_while_no_server_runs_are_recorded(harness: Harness) -> None:
    harness.write(1, "a", Put(data("a"), ttl_seconds=60))
    for process in (1, 2):
        harness.cluster.crash(process, lambda: None)
    harness.wait(70.0)

    assert [each.type for each in harness.history.changes(CONFIG_MAPS, 0)] == ["ADDED", "DELETED"]
