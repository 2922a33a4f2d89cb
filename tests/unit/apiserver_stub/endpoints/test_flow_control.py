"""Tests for the tables of the state of flow control at their paths."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.endpoints.flow_control import FlowControlDumps
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.flowcontrol.default_configuration import default_levels, default_schemas

ROOT = "/debug/api_priority_and_fairness/"


@pytest.mark.parametrize(
    ("path", "query", "columns"),
    [
        ("dump_priority_levels", "", ["PriorityLevelName", "ActiveQueues", "IsIdle"]),
        ("dump_queues", "", ["PriorityLevelName", "Index", "PendingRequests"]),
        ("dump_requests", "", ["PriorityLevelName", "FlowSchemaName", "QueueIndex"]),
        ("dump_requests", "includeRequestDetails=1", ["PriorityLevelName", "FlowSchemaName", "QueueIndex"]),
        ("dump_other", "", None),
        ("", "", None),
    ],
)
async def test_each_table_has_its_path(path: str, query: str, columns: list[str] | None) -> None:
    fairness = PriorityAndFairness(10, 30, default_levels(), default_schemas())
    info = RequestInfo("get", ROOT + path)
    request = Request("GET", info, Query(query), {}, b"", ANONYMOUS, PLAIN, Identity())

    reply = await FlowControlDumps(fairness).respond(request)

    if columns is None:
        assert reply is None
        return
    assert reply is not None and reply.body is not None
    header = [name.strip() for name in reply.body.decode().splitlines()[0].split(",")]
    assert header[:3] == columns
    assert ("StartTime" in header, "UserName" in header) == (path == "dump_requests", bool(query))
    assert reply.content_type == "text/plain; charset=utf-8"
