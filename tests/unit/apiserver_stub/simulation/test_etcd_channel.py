"""Tests for the channels to the simulated etcd cluster: responses, watches and faults."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextvars import Context
from typing import Any

import grpc
import pytest

from apiserver_stub.simulation.etcd import Etcd
from apiserver_stub.simulation.etcd_channel import EtcdNetwork
from apiserver_stub.storage.base import StoreUnavailable
from apiserver_stub.storage.etcd import client as client_module
from apiserver_stub.storage.etcd.client import EtcdClient, HistoryCompacted, TlsFiles
from nodeagent.base.simulation.loop import PROCESS, SimulatedLoop

URLS = ["http://etcd-0:2379", "http://etcd-1:2379", "http://etcd-2:2379"]
PROCESSES = (7, 8)


class Harness:
    """The store's clients of two processes."""

    def __init__(self, loop: SimulatedLoop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = loop
        self.etcd = Etcd()
        self.network = EtcdNetwork(1, loop, self.etcd, URLS)
        monkeypatch.setattr(client_module, "_Endpoint", self.network.endpoint)
        self.client = EtcdClient(URLS, TlsFiles())
        self.received: list[Any] = []

    def start(self, function: Coroutine[Any, Any, Any], process: int = 7) -> asyncio.Task[Any]:
        context = Context()
        context.run(PROCESS.set, process)
        return self.loop.create_task(function, context=context)

    def run(self, function: Coroutine[Any, Any, Any], process: int = 7) -> Any:
        return self.loop.run_until_complete(self.start(function, process))

    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    async def put(self, key: bytes, value: bytes = b"", *, expected: int = 0, lease: int = 0) -> int:
        return (await self.client.put(key, value, expected=expected, lease=lease))[0]

    async def watch(self, start: int = 1) -> None:
        """Record the revisions of each response, and the error at the end."""
        try:
            async with self.client.watch(b"a", b"z", start) as watching:
                async for response in watching.responses():
                    self.received.append([event.kv.mod_revision for event in response.events])
        except (StoreUnavailable, HistoryCompacted) as error:
            self.received.append(type(error))

    @property
    def events(self) -> list[int]:
        return [revision for each in self.received if isinstance(each, list) for revision in each]

    @property
    def ended(self) -> bool:
        return bool(self.received) and not isinstance(self.received[-1], list)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    found, problems = Harness(loop, monkeypatch), list[str]()
    loop.on_unhandled = problems.append
    yield found
    assert problems == []
    for process in PROCESSES:
        loop.drop(process)
    found.wait(0.0)
    asyncio.set_event_loop(None)
    loop.close()


def test_clients_call_the_cluster(harness: Harness) -> None:
    async def work() -> None:
        assert await harness.put(b"a", b"1") == 2
        assert await harness.put(b"a", b"2") == 0, "the key exists"
        assert (await harness.client.range(b"a")).kvs[0].value == b"1"
        assert set(await harness.client.sizes()) == set(URLS)
        with pytest.raises(HistoryCompacted):
            await harness.client.compact(2)
            await harness.client.range(b"a", revision=1)
        await harness.client.close()

    harness.run(work())


def test_watches_deliver_all_events_in_order(harness: Harness) -> None:
    harness.run(harness.put(b"a"))
    harness.start(harness.watch(start=2))
    harness.start(harness.watch(start=2), 8)
    harness.wait(1.0)
    for number in range(50):
        harness.run(harness.put(b"key-%d" % number))
    harness.run(harness.put(b"z"))
    harness.wait(5.0)

    assert sorted(harness.events) == sorted([*range(2, 53)] * 2)
    assert any(len(each) > 1 for each in harness.received), "some are merged"


def test_progress_follows_all_events(harness: Harness) -> None:
    progress: list[int] = []

    async def work() -> None:
        async with harness.client.watch(b"a", b"z", 1) as watching:
            responses = watching.responses()
            assert (await anext(responses)).created
            harness.start(harness.put(b"~"), 8)
            await asyncio.sleep(1.0)
            await watching.request_progress()
            progress.append((await anext(responses)).header.revision)

    harness.run(work())

    assert progress == [2]


def test_watch_from_compacted_revision_is_rejected(harness: Harness) -> None:
    for key in (b"a", b"b", b"c"):
        harness.run(harness.put(key))
    harness.run(harness.client.compact(3))
    for start, expected in ((2, HistoryCompacted), (3, [3, 4])):
        harness.received.clear()
        harness.start(harness.watch(start))
        harness.wait(1.0)

        assert harness.received[-1] == expected


def test_stopped_member_closes_its_watches_and_rejects_calls(harness: Harness) -> None:
    harness.start(harness.watch())
    harness.wait(1.0)
    harness.network.stop_member(URLS[1])
    harness.wait(1.0)
    assert not harness.ended

    harness.network.stop_member(URLS[0])
    harness.wait(1.0)

    assert (harness.received[-1], harness.network.available) == (StoreUnavailable, False)


def test_majority_of_the_members_is_required(harness: Harness) -> None:
    harness.network.stop_member(URLS[0])

    async def work() -> list[float]:
        times = []
        for _ in range(3):
            started = harness.loop.time()
            try:
                await harness.put(b"a")
            except StoreUnavailable:
                times.append(round(harness.loop.time() - started))
        return times

    assert harness.run(work()) == [0], "the next member responds"
    harness.network.stop_member(URLS[1])
    assert set(harness.run(work())) == {0, 7}, "a stopped member rejects the call, the last one has no leader"
    harness.start(harness.watch())
    harness.wait(1.0)
    assert harness.received[-1] is StoreUnavailable


def test_isolated_process_receives_nothing_until_it_is_connected_again(harness: Harness) -> None:
    for process in PROCESSES:
        harness.start(harness.watch(), process)
    harness.wait(1.0)
    harness.network.isolate(7)
    with pytest.raises(StoreUnavailable, match="deadline"):
        harness.run(harness.client.range(b"a", seconds=2.0))
    harness.run(harness.put(b"a"), 8)
    harness.wait(2.0)
    assert harness.events == [2]

    harness.network.connect_again(7)
    harness.wait(2.0)

    assert harness.events == [2, 2]
    assert not harness.ended


def test_connections_of_an_isolated_process_time_out(harness: Harness) -> None:
    for process in PROCESSES:
        harness.start(harness.watch(), process)
    harness.wait(1.0)
    harness.network.isolate(7)
    harness.wait(39.0)
    assert not harness.ended
    harness.wait(2.0)

    assert harness.received[-1] is StoreUnavailable
    assert [watch.process for watch in harness.network.watches] == [8]


def test_response_of_an_executed_write_may_be_lost(harness: Harness) -> None:
    harness.network.loss = 1.0

    with pytest.raises(StoreUnavailable):
        harness.run(harness.put(b"a"))

    assert harness.run(harness.client.range(b"a")).count == 1


@pytest.mark.parametrize("writes", [1, 2])
def test_process_crashes_when_it_sends_a_write(harness: Harness, writes: int) -> None:
    harness.network.crash_in = writes
    crashes: list[int] = []

    def crash() -> None:
        crashes.append(harness.etcd.revision)
        harness.loop.drop(harness.loop.current_process)

    harness.loop.on_crash = crash
    for key in (b"a", b"b"):
        harness.start(harness.put(key))
        harness.wait(1.0)

    assert (crashes, harness.network.crash_in) == ([writes], None)


def test_request_of_a_process_that_has_crashed_is_executed(harness: Harness) -> None:
    harness.start(harness.put(b"a"))
    harness.start(harness.watch())
    harness.wait(0.0)
    harness.loop.drop(7)
    harness.network.forget(7)
    harness.wait(1.0)

    assert (harness.etcd.revision, list(harness.network.watches)) == (2, [])


def test_lease_expires_up_to_a_second_after_its_end(harness: Harness) -> None:
    async def work() -> None:
        await harness.put(b"a", lease=await harness.client.grant(60))

    harness.run(work())
    harness.wait(59.0)
    assert harness.run(harness.client.range(b"a")).count == 1
    harness.wait(3.0)
    assert harness.run(harness.client.range(b"a")).count == 0


def test_leases_do_not_expire_without_a_majority(harness: Harness) -> None:
    async def work() -> None:
        await harness.put(b"a", lease=await harness.client.grant(60))

    harness.run(work())
    harness.network.down.update(URLS[:2])
    harness.wait(100.0)
    assert harness.etcd.lease_seconds(1) == 60
    harness.network.down.clear()
    harness.wait(62.0)
    assert harness.etcd.lease_seconds(1) == 0


def test_errors_have_their_status_codes(harness: Harness) -> None:
    harness.etcd.full = True

    with pytest.raises(StoreUnavailable, match="database space exceeded") as found:
        harness.run(harness.put(b"a"))

    cause: Any = found.value.__cause__
    assert cause.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
