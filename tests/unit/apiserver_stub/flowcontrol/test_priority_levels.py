"""Tests for priority levels: settings, seats and queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, User, parse_path
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import (
    Admission,
    LevelSettings,
    PriorityLevel,
    Rejected,
    RequestCounts,
    read_level,
)
from apiserver_stub.flowcontrol.schemas import FlowSchema
from tests.unit.apiserver_stub.flowcontrol.default_configuration import default_levels, default_schemas

PODS = parse_path("GET", "/api/v1/pods", Query(""))
SCHEMA = FlowSchema("s", "l", lambda user, info: True, method="ByUser")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "Exempt"}, LevelSettings(0, exempt=True)),
        (
            {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 5, "lendablePercent": 20}},
            LevelSettings(5, 20, exempt=True),
        ),
        ({"type": "Limited"}, LevelSettings(0)),
        (
            {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 5,
                    "lendablePercent": 20,
                    "borrowingLimitPercent": 0,
                    "limitResponse": {
                        "type": "Queue",
                        "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 50},
                    },
                },
            },
            LevelSettings(5, 20, 0, queues=8, hand=2, queue_length=50),
        ),
    ],
)
def test_settings_are_those_of_the_specification(spec: Any, expected: LevelSettings) -> None:
    assert read_level(spec) == expected


@pytest.mark.parametrize(
    ("seats", "lendable", "borrowing", "least", "most"),
    [
        (245, 90, None, 24, 845),
        (10, 0, 0, 10, 10),
        (5, 10, 10, 4, 6),
        (10, 50, 200, 5, 30),
    ],
)
def test_bounds_of_borrowing_are_rounded_as_upstream(
    seats: int, lendable: int, borrowing: int | None, least: int, most: int
) -> None:
    level = PriorityLevel("l", LevelSettings(1))

    level.configure(LevelSettings(1, lendable, borrowing), seats, 600)

    assert (level.least, level.most) == (least, most)


@pytest.mark.parametrize(
    ("seats", "hand", "expected"), [(10, 0, 10), (600, 8, 10), (20, 8, 2), (20, 2, 3), (1, 8, 1), (100, 1, 10)]
)
def test_width_of_a_request_is_limited(seats: int, hand: int, expected: int) -> None:
    level = PriorityLevel("l", LevelSettings(1, hand=hand))
    level.seats = seats

    assert level.max_width == expected


def admission(user: str = "a", width: int = 1) -> Admission:
    return Admission(SCHEMA, User(user), PODS, width, RequestCounts())


def level(limit: int, **settings: Any) -> PriorityLevel:
    found = PriorityLevel("l", LevelSettings(1, **settings))
    found.settle(limit)
    return found


def test_wide_request_executes_only_without_others() -> None:
    found = level(2)
    wide, narrow = admission(width=5), admission()

    assert not level(0).try_enter(narrow)
    assert found.try_enter(wide)
    assert not found.try_enter(narrow)
    found.leave(wide)
    assert found.try_enter(narrow)
    assert not found.try_enter(wide)
    assert found.try_enter(admission())
    assert not found.try_enter(admission())


def test_exempt_request_needs_no_seats() -> None:
    assert level(0, exempt=True).try_enter(admission(width=9))


async def test_level_is_idle_without_executing_and_waiting_requests() -> None:
    found = level(1, queues=1, hand=1, queue_length=1)
    first, second = admission(), admission()
    states = [found.is_idle]
    assert found.try_enter(first)
    states.append(found.is_idle)
    waiting = asyncio.ensure_future(found.enter(second, 60))
    await asyncio.sleep(0)
    found.executing.clear()
    states.append(found.is_idle)
    with pytest.raises(Rejected, match="queue-full"):
        await found.enter(admission(), 60)
    found.leave(first)
    await waiting
    found.leave(second)

    assert [*states, found.is_idle] == [True, False, False, True]


async def test_level_without_queues_rejects_excess_requests() -> None:
    with pytest.raises(Rejected, match="concurrency-limit"):
        await level(0).enter(admission(), 60)


async def test_flow_uses_the_shortest_of_its_queues() -> None:
    found = level(0, queues=16, hand=6, queue_length=9)
    tasks, used = [], []
    for _ in range(6):
        waiting = admission()
        tasks.append(asyncio.ensure_future(found.enter(waiting, 60)))
        await asyncio.sleep(0)
        used.append(waiting.queue)

    assert len(set(used)) == 6
    assert all(0 <= index < 16 for index in used)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (found.waiting, found.queues) == (0, {})


async def test_hands_of_flows_contain_every_queue_as_often() -> None:
    counts = dict.fromkeys(range(4), 0)
    for number in range(200):
        found = level(0, queues=4, hand=3, queue_length=1)
        tasks = [asyncio.ensure_future(found.enter(admission(f"user-{number}"), 60)) for _ in range(3)]
        await asyncio.sleep(0)
        assert len(found.queues) == 3
        for index in found.queues:
            counts[index] += 1
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    assert all(120 < count < 180 for count in counts.values())


@pytest.mark.parametrize(("executes", "kept"), [(True, True), (False, False)])
async def test_removed_level_exists_until_its_last_request_has_ended(*, executes: bool, kept: bool) -> None:
    levels, schemas = default_levels(), default_schemas()
    extra = FlowSchema("extra", "extra", lambda user, info: user.name == "extra", precedence=1)
    fairness = PriorityAndFairness(600, 30, {**levels, "extra": LevelSettings(10)}, [extra, *schemas])
    request = await fairness.enter(extra, User("extra"), PODS) if executes else None

    fairness.configure(levels, schemas)
    found = "extra" in fairness.levels
    fairness.settle(1)
    still = "extra" in fairness.levels
    if request is not None:
        fairness.leave(request)
    fairness.settle(2)

    assert (found, still, "extra" in fairness.levels) == (kept, kept, False)
    assert levels.keys() == fairness.levels.keys()
