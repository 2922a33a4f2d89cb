"""Tests for the tables of the state of flow control."""

from __future__ import annotations

import asyncio

from apiserver_stub.apimachinery.request import Query, User, parse_path
from apiserver_stub.flowcontrol.dumps import level_table, queue_table, request_table
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import CANCELLED, CONCURRENCY_LIMIT, QUEUE_FULL, TIME_OUT
from tests.unit.apiserver_stub.flowcontrol.default_configuration import default_levels, default_schemas

ALICE = User("alice", groups=("system:authenticated",))
PODS = parse_path("GET", "/api/v1/namespaces/web/pods", Query(""))


async def test_tables_show_executing_and_waiting_requests() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    await fairness.enter(schema, ALICE, PODS)
    waiting = asyncio.create_task(fairness.enter(schema, ALICE, PODS))
    await asyncio.sleep(0)

    levels, queues = _rows(level_table(fairness)), _rows(queue_table(fairness))
    requests, details = _rows(request_table(fairness, details=False)), _rows(request_table(fairness, details=True))

    assert levels[0][:6] == [
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
    ]
    assert ["global-default", "1", "false", "false", "1", "1", "1", "0", "0", "0"] in levels
    assert ["exempt", "0", "true", "false", "0", "0", "0", "0", "0", "0"] in levels
    (queue,) = queues[1:]
    assert (queue[0], queue[2:]) == ("global-default", ["1", "0", "0"])
    assert [row[:5] for row in requests[1:]] == [
        ["global-default", "global-default", queue[1], "0", "alice"],
        ["global-default", "global-default", "-1", "-1", "alice"],
    ]
    expected = ["alice", "list", "/api/v1/namespaces/web/pods", "web", "", "v1", "pods", ""]
    assert [row[8:] for row in details[1:]] == [expected, expected]
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def test_rejections_are_counted_by_reason() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    fairness.levels["global-default"].rejected.update({TIME_OUT: 2, CANCELLED: 3, QUEUE_FULL: 4, CONCURRENCY_LIMIT: 5})

    (row,) = [row for row in _rows(level_table(fairness)) if row[0] == "global-default"]

    assert row[-3:] == ["9", "2", "3"]


async def test_first_queue_is_shown_while_its_request_executes() -> None:
    fairness = PriorityAndFairness(1, 30, default_levels(), default_schemas())
    schema = fairness.sort(ALICE, PODS)
    admission = await fairness.enter(schema, ALICE, PODS)
    without = _rows(queue_table(fairness))
    admission.queue = 0

    assert without[1:] == []
    assert _rows(queue_table(fairness))[1:] == [["global-default", "0", "0", "1", "1"]]


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(",")] for line in table.splitlines()]
