"""``/debug/api_priority_and_fairness/``: tables of priority levels, queues and requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.flowcontrol.dumps import level_table, queue_table, request_table
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness

_ROOT = "/debug/api_priority_and_fairness/"
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}


class FlowControlDumps:
    """State of flow control for debugging."""

    read_only = False

    def __init__(self, fairness: PriorityAndFairness) -> None:
        self._fairness = fairness

    async def respond(self, request: Request) -> Reply | None:
        """Return the table at a path of the dumps, ``None`` for any other path."""
        name = request.info.path.removeprefix(_ROOT)
        if name == "dump_priority_levels":
            table = level_table(self._fairness)
        elif name == "dump_queues":
            table = queue_table(self._fairness)
        elif name == "dump_requests":
            table = request_table(self._fairness, details=bool(request.query.get("includeRequestDetails")))
        else:
            return None
        return Reply(200, body=table.encode(), content_type=_TEXT, headers=_HEADERS)
