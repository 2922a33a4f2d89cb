"""Tests for profiles: names, parameters and formats."""

from __future__ import annotations

import asyncio
import gzip
import threading

import pytest

from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.encoding import Frame
from nodeagent.base.profiling.profiles import Content, InvalidParameter, Profiles
from nodeagent.testing import FakeClock

STACK = (Frame("work", "/work.py", 7),)


class Contention(ContentionProfile):
    """Profile with fixed numbers and nanoseconds of delays, which a test replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.found = {STACK: (2, 1_500_000_000)}

    def stacks(self) -> dict[tuple[Frame, ...], tuple[int, int]]:  # type: ignore[override]
        return self.found


async def take(profiles: Profiles, name: str, **query: str) -> Content:
    content = await profiles.take(name, query)
    assert content is not None
    return content


@pytest.mark.parametrize("seconds", ["-0.1", "30.1", "nan", "inf", "x"])
@pytest.mark.parametrize("name", ["block", "mutex", "heap", "goroutine", "threadcreate", "profile", "trace"])
async def test_duration_outside_of_the_limits_is_rejected(clock: FakeClock, name: str, seconds: str) -> None:
    with pytest.raises(InvalidParameter, match="seconds must be a number from 0 to 30"):
        await Profiles(None, max_seconds=30, clock=clock).take(name, {"seconds": seconds})


async def test_change_during_a_duration_is_returned(clock: FakeClock) -> None:
    contention, other = Contention(), (Frame("other", "/work.py", 9),)
    profiles = Profiles(contention, max_seconds=30, clock=clock)
    task = asyncio.create_task(take(profiles, "block", seconds="30", debug="1"))
    await clock.advance(29)
    assert not task.done()

    contention.found = {STACK: (2, 1_500_000_000), other: (1, 250_000_000)}
    await clock.advance(1)

    assert (await task).body.decode() == "0.250 s in 1 delays\n\tother\t/work.py:9\n"


@pytest.mark.parametrize("query", [{}, {"seconds": "0"}, {"seconds": ""}, {"debug": "0"}, {"debug": ""}])
async def test_profile_is_a_file_unless_text_is_requested(clock: FakeClock, query: dict[str, str]) -> None:
    content = await take(Profiles(Contention(), max_seconds=30, clock=clock), "block", **query)

    assert content.headers["Content-Disposition"] == 'attachment; filename="block"'
    assert b"/work.py" in gzip.decompress(content.body)


async def test_text_has_the_longest_delays_first(clock: FakeClock) -> None:
    contention = Contention()
    contention.found = {(Frame("short", "/a.py", 1),): (9, 10**9), STACK: (1, 2 * 10**9)}

    content = await take(Profiles(contention, max_seconds=30, clock=clock), "block", debug="1")

    assert content.body.decode().splitlines()[::3] == ["2.000 s in 1 delays", "1.000 s in 9 delays"]
    assert "Content-Disposition" not in content.headers


async def test_block_profile_is_empty_without_contention_profiling(clock: FakeClock) -> None:
    assert (await take(Profiles(None, max_seconds=30, clock=clock), "block", debug="1")).body == b""
    assert (await take(Profiles(Contention(), max_seconds=30, clock=clock), "mutex", debug="1")).body == b""


async def test_stacks_of_tasks_and_threads_are_listed_as_text(clock: FakeClock) -> None:
    profiles = Profiles(None, max_seconds=30, clock=clock)
    for name in ("goroutine", "threadcreate"):
        content = await take(profiles, name, debug="2")
        assert content.body.decode().startswith(f"{name} profile: total ")


@pytest.mark.parametrize(("max_seconds", "seconds"), [(60, "30.5"), (60, "60")])
async def test_traces_are_limited_to_30_seconds(clock: FakeClock, max_seconds: float, seconds: str) -> None:
    with pytest.raises(InvalidParameter, match="seconds must be at most 30 for a trace"):
        await Profiles(None, max_seconds=max_seconds, clock=clock).take("trace", {"seconds": seconds})


async def test_unknown_profile_is_none(clock: FakeClock) -> None:
    assert await Profiles(None, max_seconds=30, clock=clock).take("other", {}) is None


async def test_trace_of_30_seconds_is_permitted(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    durations: list[float] = []

    def sample(seconds: float, stop: threading.Event) -> list[object]:
        durations.append(seconds)
        return []

    monkeypatch.setattr("nodeagent.base.profiling.profiles.sample", sample)
    profiles = Profiles(None, max_seconds=30, clock=clock)

    assert (await take(profiles, "trace", seconds="30")).file == "trace.speedscope.json"
    assert (await take(profiles, "trace")).file == "trace.speedscope.json"
    assert durations == [30.0, 1.0]


@pytest.mark.parametrize(
    ("query", "collects"), [({}, False), ({"gc": "0"}, False), ({"gc": ""}, False), ({"gc": "1"}, True)]
)
async def test_garbage_is_collected_before_a_heap_profile_on_request(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, query: dict[str, str], collects: bool
) -> None:
    requests: list[bool] = []

    def object_stacks(*, collect: bool) -> dict[object, object]:
        requests.append(collect)
        return {}

    monkeypatch.setattr("nodeagent.base.profiling.profiles.object_stacks", object_stacks)
    profiles = Profiles(None, max_seconds=30, clock=clock)

    for name in ("heap", "allocs"):
        assert (await take(profiles, name, **query)).file == name
    assert requests == [collects, collects]
