"""Tests for audit backends: batching, throttling, truncation and metrics."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from apiserver_stub.audit import event as events
from apiserver_stub.audit.backend import Backend
from apiserver_stub.audit.event import Event, UserInfo
from apiserver_stub.audit.policy import AuditError
from apiserver_stub.options import parse
from nodeagent.testing.clock import FakeClock

PLUGINS = ("log", "webhook")


def rows(name: str) -> list[object]:
    """Return both backends, each for its own option *name*."""
    return [pytest.param(plugin, marks=pytest.mark.row(f"opt.audit-{plugin}-{name}")) for plugin in PLUGINS]


class Recorder:
    """Sink that records events; blocks while *closed* and fails while *broken*."""

    parallel = False

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.batches: list[list[dict[str, object]]] = []
        self.open = asyncio.Event()
        self.open.set()
        self.broken = False

    def encode(self, event: Event) -> bytes:
        return events.encode(event)

    async def write(self, records: Sequence[bytes]) -> None:
        await self.open.wait()
        if self.broken:
            raise AuditError("disk full")
        self.batches.append([msgspec.json.decode(record) for record in records])

    async def close(self) -> None:
        pass

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]


def event(name: str = "e", body: int = 0, level: str = "Request") -> Event:
    return Event(
        kind="Event",
        api_version="audit.k8s.io/v1",
        level=level,
        audit_id=name,
        stage="ResponseComplete",
        request_uri="/",
        verb="get",
        user=UserInfo(),
        request_object={"a": "x" * body} if body else None,
        request_received_timestamp="2024-01-01T00:00:00.000000Z",
        stage_timestamp="2024-01-01T00:00:00.000000Z",
    )


class Made:
    def __init__(self, plugin: str, clock: FakeClock, *arguments: str) -> None:
        options = parse(
            [f"--audit-{plugin}-{argument}" for argument in arguments]
            + ["--audit-log-path=/x", "--audit-webhook-config-file=/x"]
        )
        self.recorder, self.errors = Recorder(plugin), Counter[str]()
        delivery = options.audit_delivery(plugin, wait_seconds=5)
        self.backend = Backend(self.recorder, delivery, self.errors, clock)


@asynccontextmanager
async def made(plugin: str, clock: FakeClock, *arguments: str) -> AsyncIterator[Made]:
    found = Made(plugin, clock, *arguments)
    try:
        yield found
    finally:
        found.recorder.open.set()
        await found.backend.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.mark.parametrize("plugin", rows("batch-buffer-size"))
async def test_events_beyond_the_buffer_are_dropped_and_counted(plugin: str, clock: FakeClock) -> None:
    async with made(plugin, clock, "mode=batch", "batch-buffer-size=3", "batch-max-size=1") as it:
        it.recorder.open.clear()
        it.backend.submit(event())
        await clock.advance()
        for _ in range(5):
            it.backend.submit(event())
        assert it.errors == {"buffered": 2}
        it.recorder.open.set()
        await clock.advance(10)
    assert it.recorder.sizes == [1] * 4


@pytest.mark.parametrize("plugin", rows("batch-max-size"))
async def test_full_batch_is_sent_immediately(plugin: str, clock: FakeClock) -> None:
    async with made(plugin, clock, "mode=batch", "batch-max-size=2", "batch-max-wait=1h") as it:
        for _ in range(5):
            it.backend.submit(event())
        await clock.advance()
        assert it.recorder.sizes == [2, 2]
    assert it.recorder.sizes == [2, 2, 1]  # shutdown does not wait


@pytest.mark.parametrize("plugin", PLUGINS)
async def test_batch_of_the_last_events_is_sent_once_it_is_full(plugin: str, clock: FakeClock) -> None:
    async with made(plugin, clock, "mode=batch", "batch-max-size=2", "batch-max-wait=1h") as it:
        for sizes in ([], [2]):
            it.backend.submit(event())
            await clock.advance()
            assert it.recorder.sizes == sizes


@pytest.mark.parametrize("plugin", rows("batch-max-wait"))
async def test_incomplete_batch_is_sent_after_the_maximum_wait(plugin: str, clock: FakeClock) -> None:
    async with made(plugin, clock, "mode=batch", "batch-max-size=9", "batch-max-wait=5s") as it:
        it.backend.submit(event())
        await clock.advance(4)
        it.backend.submit(event())
        assert it.recorder.sizes == []
        await clock.advance(1)
        assert it.recorder.sizes == [2]


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(
            plugin,
            marks=pytest.mark.row(*(f"opt.audit-{plugin}-batch-throttle-{end}" for end in ("enable", "qps", "burst"))),
        )
        for plugin in PLUGINS
    ],
)
async def test_batches_are_throttled(plugin: str, clock: FakeClock) -> None:
    rate = ("batch-throttle-qps=2", "batch-throttle-burst=3")
    async with made(plugin, clock, "mode=batch", "batch-max-size=1", "batch-throttle-enable", *rate) as it:
        for _ in range(6):
            it.backend.submit(event())
        await clock.advance()
        assert len(it.recorder.sizes) == 3
        await clock.advance(0.5)
        assert len(it.recorder.sizes) == 4
        await clock.advance(1)
        assert len(it.recorder.sizes) == 6
    async with made(plugin, clock, "mode=batch", "batch-max-size=1", "batch-throttle-enable=false", *rate) as it:
        for _ in range(6):
            it.backend.submit(event())
        await clock.advance()
        assert len(it.recorder.sizes) == 6


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(
            plugin,
            marks=pytest.mark.row(*(f"opt.audit-{plugin}-truncate-{end}" for end in ("enabled", "max-event-size"))),
        )
        for plugin in PLUGINS
    ],
)
async def test_large_event_is_truncated_or_dropped(plugin: str, clock: FakeClock) -> None:
    size = "truncate-max-event-size=1000"
    async with made(plugin, clock, "mode=batch", "batch-max-size=1", "truncate-enabled", size) as it:
        for large in (event("small", 10), event("large", 2000), event("l" * 2000)):
            it.backend.submit(large)
        await clock.advance()
    (small,), (large_one,) = it.recorder.batches
    assert "requestObject" in small
    assert "requestObject" not in large_one
    assert large_one["annotations"] == {"audit.k8s.io/truncated": "true"}
    assert it.errors == {"truncate": 1}
    async with made(plugin, clock, "mode=batch", "batch-max-size=1", size) as it:
        it.backend.submit(event("large", 2000))
        await clock.advance()
    assert "requestObject" in it.recorder.batches[0][0]


@pytest.mark.parametrize(("excess", "is_complete"), [(0, True), (-1, False)])
async def test_event_of_exactly_the_limit_is_not_truncated(clock: FakeClock, excess: int, *, is_complete: bool) -> None:
    large = event("large", 2000)
    size = f"truncate-max-event-size={len(events.encode(large)) + excess}"
    async with made("log", clock, "mode=batch", "batch-max-size=1", "truncate-enabled", size) as it:
        it.backend.submit(large)
        await clock.advance()
    assert ("requestObject" in it.recorder.batches[0][0]) is is_complete


@pytest.mark.parametrize("plugin", rows("truncate-max-batch-size"))
async def test_large_batch_is_split(plugin: str, clock: FakeClock) -> None:
    sizes = ("truncate-max-event-size=1000", "truncate-max-batch-size=1500")
    async with made(plugin, clock, "mode=batch", "batch-max-size=4", "truncate-enabled", *sizes) as it:
        for _ in range(4):
            it.backend.submit(event("e", 400))
        await clock.advance()
    assert it.recorder.sizes == [2, 2]


@pytest.mark.parametrize("plugin", rows("mode"))
async def test_only_blocking_modes_delay_requests(plugin: str, clock: FakeClock) -> None:
    for mode, waits, strict in (("batch", False, False), ("blocking", True, False), ("blocking-strict", True, True)):
        async with made(plugin, clock, f"mode={mode}", "batch-max-wait=0s") as it:
            it.recorder.open.clear()
            taken = it.backend.submit(event())
            await clock.advance()
            assert (taken is not None, it.backend.strict) == (waits, strict)
            assert taken is None or not taken.done()
            it.recorder.broken = strict
            it.recorder.open.set()
            await clock.advance()
            assert taken is None or taken.result() is not strict
        assert it.errors == ({plugin: 1} if strict else {})


async def test_concurrent_blocking_requests_share_a_write(clock: FakeClock) -> None:
    async with made("log", clock, "mode=blocking") as it:
        it.recorder.open.clear()
        waits = [it.backend.submit(event(str(number))) for number in range(5)]
        await clock.advance()
        it.recorder.open.set()
        assert all([await it.backend.wait(taken) for taken in waits if taken is not None])
    assert sum(it.recorder.sizes) == 5
    assert len(it.recorder.sizes) <= 2
