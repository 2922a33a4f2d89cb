"""Widths of requests: the number of seats that a request takes. No I/O."""

from __future__ import annotations

import math

from apiserver_stub.apimachinery.request import Query, RequestInfo
from nodeagent.base.gointeger import parse_digits

_OBJECTS_PER_SEAT = 100


def seats_of(info: RequestInfo, query: Query, stored: int, most: int) -> int:
    """Return the number of seats of a request: more for a list, by the number of objects that it reads.

    :param stored: number of stored objects of the resource.
    :param most: highest width at the priority level.
    """
    if info.name or info.verb not in ("list", "watch"):
        return 1
    if info.verb == "watch" and query.get("sendInitialEvents") != "true":
        return 1
    read, limit = stored, parse_digits(query.get("limit"))
    if limit and not (query.get("labelSelector") or query.get("fieldSelector")):
        read = min(stored, limit)
    return min(most, max(1, math.ceil(read / _OBJECTS_PER_SEAT)))
