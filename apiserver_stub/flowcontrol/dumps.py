"""Tables of the state of flow control, as kube-apiserver serves them for debugging. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apiserver_stub.flowcontrol.priority_levels import CANCELLED, TIME_OUT, Admission, PriorityLevel

if TYPE_CHECKING:
    from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness

_LEVELS = (
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
)
_QUEUES = ("PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse")
_REQUESTS = (
    "PriorityLevelName",
    "FlowSchemaName",
    "QueueIndex",
    "RequestIndexInQueue",
    "FlowDistingsher",
    "ArriveTime",
    "InitialSeats",
    "StartTime",
)
_DETAILS = ("UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource", "SubResource")
_CELL, _MIN_WIDTH = ",", 8


def level_table(fairness: PriorityAndFairness) -> str:
    """Return the table of the priority levels."""
    return _table(_LEVELS, (_level_row(level) for _, level in sorted(fairness.levels.items())))


def queue_table(fairness: PriorityAndFairness) -> str:
    """Return the table of the queues in which requests wait or waited."""
    rows = []
    for name, level in sorted(fairness.levels.items()):
        used = {item.queue for item in level.executing if item.queue >= 0} | level.queues.keys()
        for index in sorted(used):
            executing = [item for item in level.executing if item.queue == index]
            pending = len(level.queues.get(index, ()))
            rows.append((name, index, pending, len(executing), sum(item.width for item in executing)))
    return _table(_QUEUES, rows)


def request_table(fairness: PriorityAndFairness, *, details: bool) -> str:
    """Return the table of the requests that wait or execute.

    :param details: show user, verb and object of each request.
    """
    rows = []
    for name, level in sorted(fairness.levels.items()):
        for queue, waiting in sorted(level.queues.items()):
            rows += [_request_row(name, queue, position, item, details) for position, item in enumerate(waiting)]
        rows += [_request_row(name, item.queue, -1, item, details) for item in level.executing]
    return _table((*_REQUESTS, *(_DETAILS if details else ())), rows)


def _level_row(level: PriorityLevel) -> Sequence[object]:
    others = sum(count for reason, count in level.rejected.items() if reason not in (TIME_OUT, CANCELLED))
    return (
        level.name,
        len(level.queues),
        level.is_idle,
        level.removed,
        level.waiting,
        len(level.executing),
        level.dispatched,
        others,
        level.rejected[TIME_OUT],
        level.rejected[CANCELLED],
    )


def _request_row(level: str, queue: int, position: int, item: Admission, details: bool) -> Sequence[object]:
    info = item.info
    times = (_time(item.arrived or item.started), _time(item.started))
    row = (level, item.schema.name, queue, position, item.flow, times[0], item.width, times[1])
    if not details:
        return row
    version = f"{info.group}/{info.version}" if info.group else info.version
    return (
        *row,
        item.user.name,
        info.verb,
        info.path,
        info.namespace,
        info.name,
        version,
        info.resource,
        info.subresource,
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z") if seconds else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows of cells that end with a comma, except the last, in columns of equal width."""
    lines = [header, *([_text(cell) for cell in row] for row in rows)]
    last = len(header) - 1
    widths = [max(_MIN_WIDTH, *(len(line[column]) + 2 for line in lines)) for column in range(last)]
    shown = (
        "".join(f"{cell}{_CELL}".ljust(width) for cell, width in zip(line[:last], widths, strict=True)) + line[last]
        for line in lines
    )
    return "".join(f"{line}\n" for line in shown)


def _text(cell: object) -> str:
    return str(cell).lower() if isinstance(cell, bool) else str(cell)
