"""Tests for the widths of requests."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.request import Query, parse_path
from apiserver_stub.flowcontrol.request_width import seats_of
from apiserver_stub.storage import Record

SMALL = Record("k", 1, b"")
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

    assert seats_of(parse_path(method, path, parameters), parameters, lambda: [SMALL] * stored, 8) == seats


@pytest.mark.parametrize(
    ("query", "count", "size", "seats"),
    [
        ("", 0, 0, 1),
        ("", 100_000, 1, 1),
        ("", 100, 1500, 2),
        ("", 3, 90_000, 3),
        ("", 1000, 100_000, 8),
        ("limit=2", 1000, 100_000, 2),
        ("limit=2&labelSelector=a", 1000, 100_000, 2),
    ],
)
def test_list_takes_a_seat_per_size_of_its_objects(query: str, count: int, size: int, seats: int) -> None:
    parameters, records = Query(query), [Record("k", 1, b"x" * size)] * count

    assert seats_of(parse_path("GET", PODS, parameters), parameters, lambda: records, 8, by_size=True) == seats


def test_average_size_is_that_of_objects_of_the_complete_list() -> None:
    records = [Record("k", 1, b"x" * size) for size in (*[10] * 8, *[200_000] * 8)]

    assert seats_of(parse_path("GET", PODS, Query("limit=4")), Query("limit=4"), lambda: records, 8, by_size=True) == 5
