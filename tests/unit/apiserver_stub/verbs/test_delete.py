"""Tests for deletion options."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.apimachinery.media import JSON, PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.delete import _later, read_options
from nodeagent.base.identity import Identity


def deletion(body: Any = None, query: str = "") -> Request:
    info = RequestInfo("delete", "/api/v1/namespaces/d/pods/p", "", "v1", "pods", "", "d", "p")
    data = b"" if body is None else json.dumps(body).encode()
    return Request("DELETE", info, Query(query), {"Content-Type": JSON}, data, User("u"), PLAIN, Identity())


def test_body_overrides_the_query() -> None:
    found = read_options(deletion({"gracePeriodSeconds": -1, "preconditions": {"uid": "1"}}, "dryRun=All"))

    assert found == {
        "gracePeriodSeconds": -1,
        "preconditions": {"uid": "1"},
        "dryRun": False,
        "propagationPolicy": None,
        "orphanDependents": None,
    }


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({"preconditions": 5}, "preconditions"),
        ({"preconditions": {"uid": 5}}, "preconditions.uid"),
        ({"dryRun": "All"}, "dryRun"),
        ({"dryRun": 5}, "dryRun"),
        ({"propagationPolicy": 5}, "propagationPolicy"),
        ({"orphanDependents": "yes"}, "orphanDependents"),
        ({"gracePeriodSeconds": True}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": 1 << 63}, "gracePeriodSeconds"),
        ({"kind": 5}, "kind"),
    ],
)
def test_values_of_the_wrong_type_are_rejected(body: Any, member: str) -> None:
    with pytest.raises(ApiError) as error:
        read_options(deletion(body))

    assert error.value.code == 400
    assert f".{member} of type" in error.value.message


@pytest.mark.parametrize("seconds", [2**40, 2**63 - 1])
def test_end_of_a_huge_grace_period_is_the_latest_time(seconds: int) -> None:
    assert _later(datetime.now(UTC), seconds).year == 9999
