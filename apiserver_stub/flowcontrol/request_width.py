"""Widths of requests: the number of seats that a request takes. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.request import Query, RequestInfo
from nodeagent.base.gointeger import parse_digits

if TYPE_CHECKING:
    from apiserver_stub.storage import Record

Records = Callable[[], Sequence["Record"]]
"""Return the stored objects of the resource of a request."""
_OBJECTS_PER_SEAT = 100
_BYTES_PER_SEAT, _MOST_BYTES = 100_000, 1_000_000
"""A list is sent in pieces, so that its response takes limited memory."""
_SAMPLE = 8


def seats_of(info: RequestInfo, query: Query, records: Records, most: int, *, by_size: bool = False) -> int:
    """Return the number of seats of a request: more for a list, by the objects that it reads.

    :param most: highest width at the priority level.
    :param by_size: the seats depend on the size of the objects (spec: gate.SizeBasedListCostEstimate), otherwise on
        their number.
    """
    if info.name or info.verb not in ("list", "watch"):
        return 1
    if info.verb == "watch" and query.get("sendInitialEvents") != "true":
        return 1
    stored = records()
    read, limit = len(stored), parse_digits(query.get("limit"))
    if by_size:
        read = min(read, limit) if limit else read
        seats = min(read * _average_bytes(stored), _MOST_BYTES) / _BYTES_PER_SEAT
    else:
        selects = query.get("labelSelector") or query.get("fieldSelector")
        read = min(read, limit) if limit and not selects else read
        seats = read / _OBJECTS_PER_SEAT
    return min(most, max(1, math.ceil(seats)))


def _average_bytes(records: Sequence[Record]) -> float:
    """Return the average size of some of *records*, 0 without any."""
    sample = [len(record.data) for record in records[:: max(1, len(records) // _SAMPLE)]]
    return sum(sample) / len(sample) if sample else 0
