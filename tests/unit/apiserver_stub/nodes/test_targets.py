"""Tests for the targets of log requests: selection of the output stream."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.targets import log_target

POD: dict[str, Any] = {
    "metadata": {"namespace": "ns", "name": "web"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
PATH = "/containerLogs/ns/web/c"


@pytest.mark.parametrize(
    ("selects", "query", "target"),
    [
        (True, "stream=Stderr", f"{PATH}?stream=Stderr"),
        (True, "stream=All&tailLines=2", f"{PATH}?stream=All&tailLines=2"),
        (True, "", PATH),
        (False, "tailLines=2", f"{PATH}?tailLines=2"),
        (None, "stream=Stderr", PATH),  # Releases without the field ignore it, as any unknown parameter.
    ],
)
def test_stream_is_passed_to_the_agent(selects: bool | None, query: str, target: str) -> None:
    assert log_target(POD, Query(query), selects_stream=selects) == target


@pytest.mark.parametrize(
    ("selects", "query", "problem"),
    [
        (False, "stream=All", "stream: Forbidden: may not be specified"),
        (True, "stream=both", 'stream: Unsupported value: "both": supported values: "All", "Stderr", "Stdout"'),
        (True, "stream=Stdout&tailLines=2", "`tailLines` and specific `stream` are mutually exclusive for now"),
    ],
)
def test_invalid_stream_is_rejected(selects: bool, query: str, problem: str) -> None:
    with pytest.raises(ApiError) as error:
        log_target(POD, Query(query), selects_stream=selects)

    assert error.value.code == 422
    assert problem in error.value.message
