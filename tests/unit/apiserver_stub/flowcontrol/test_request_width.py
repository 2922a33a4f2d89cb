"""Tests for the widths of requests."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.flowcontrol.request_width import seats_of

PODS = "/api/v1/namespaces/web/pods"


@pytest.mark.parametrize(
    ("method", "path", "query", "stored", "seats"),
    [
        ("GET", PODS, "", 0, 1),
        ("GET", PODS, "", 100, 1),
        ("GET", PODS, "", 101, 2),
        ("GET", PODS, "", 100_000, 8),
        ("GET", PODS, "limit=500", 100_000, 5),
        ("GET", PODS, "limit=500&labelSelector=a", 100_000, 8),
        ("GET", PODS, "limit=500&fieldSelector=spec.nodeName%3Da", 300, 3),
        ("GET", PODS, "limit=many", 300, 3),
        ("GET", PODS, "watch=true", 100_000, 1),
        ("GET", PODS, "watch=true&sendInitialEvents=true", 100_000, 8),
        ("GET", f"{PODS}/a", "", 100_000, 1),
        ("POST", PODS, "", 100_000, 1),
    ],
)
def test_list_takes_a_seat_per_hundred_objects(method: str, path: str, query: str, stored: int, seats: int) -> None:
    parameters = Query(query)

    assert seats_of(parse_path(method, path, parameters), parameters, stored, 8) == seats
