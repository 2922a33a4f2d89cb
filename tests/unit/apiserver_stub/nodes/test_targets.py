"""Tests for the targets of requests to node agents: log options, containers, commands and ports."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.targets import choose_container, forward_target, log_target, stream_target

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


@pytest.mark.parametrize(
    ("query", "target"),
    [
        ("sinceSeconds=1&tailLines=0&limitBytes=1", f"{PATH}?limitBytes=1&sinceSeconds=1&tailLines=0"),
        ("follow=true&previous=1&timestamps=x", f"{PATH}?follow=true&previous=true&timestamps=true"),
        ("follow=false&previous=0&timestamps=", PATH),
        ("sinceTime=2024-01-01T02:00:00%2B02:00", f"{PATH}?sinceTime=2024-01-01T00%3A00%3A00Z"),
        ("container=c&unknown=x", PATH),
    ],
)
def test_log_options_are_passed_to_the_agent(query: str, target: str) -> None:
    assert log_target(POD, Query(query)) == target


@pytest.mark.parametrize(
    ("query", "code", "problem"),
    [
        ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        (
            "sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z",
            422,
            "at most one of `sinceTime` or `sinceSeconds` may be specified",
        ),
        ("tailLines=x", 400, "invalid syntax"),
        ("sinceTime=yesterday", 400, 'parsing time "yesterday"'),
        ("sinceTime=2024-01-01T00:00:00", 400, 'parsing time "2024-01-01T00:00:00"'),
        ("container=d", 400, "container d is not valid for pod web"),
    ],
)
def test_invalid_log_options_are_rejected(query: str, code: int, problem: str) -> None:
    with pytest.raises(ApiError) as error:
        log_target(POD, Query(query))

    assert error.value.code == code
    assert problem in error.value.message


def pod_with(**kinds: list[str]) -> dict[str, Any]:
    spec = {kind: [{"name": name} for name in names] for kind, names in kinds.items()}
    return {"metadata": {"namespace": "ns", "name": "web"}, "spec": spec}


def test_only_container_is_the_default() -> None:
    pod = pod_with(containers=["c"], initContainers=["i"], ephemeralContainers=["e"])

    assert choose_container(pod, "") == "c"
    for name in ("c", "i", "e"):
        assert choose_container(pod, name) == name


@pytest.mark.parametrize(
    ("kinds", "choice"),
    [
        ({"containers": ["c", "d"]}, ", choose one of: [c d]"),
        (
            {"containers": ["c", "d"], "initContainers": ["i"], "ephemeralContainers": ["e", "f"]},
            ", choose one of: [c d] or one of the init containers: [i] or one of the ephemeral containers: [e f]",
        ),
        ({}, ""),
    ],
)
def test_container_must_be_named_if_there_are_several(kinds: dict[str, list[str]], choice: str) -> None:
    with pytest.raises(ApiError) as error:
        choose_container(pod_with(**kinds), "")

    text = f"a container name must be specified for pod web{choice}"
    assert (error.value.code, error.value.message) == (400, text)


@pytest.mark.parametrize(
    ("kind", "query", "target"),
    [
        ("exec", "command=sh&command=-c&stdin=1&stdout=1&stderr=1&tty=1", "command=sh&command=-c&error=1&input=1"),
        ("exec", "command=a%26b", "command=a%26b"),
        ("attach", "command=sh&stdout=true&stderr=false", "output=1"),
    ],
)
def test_streams_and_command_are_passed_to_the_agent(kind: str, query: str, target: str) -> None:
    assert stream_target(kind, POD, Query(query)).startswith(f"/{kind}/ns/web/c?{target}")


def test_ports_are_passed_to_the_agent() -> None:
    assert forward_target(POD, Query("ports=80&ports=90")) == "/portForward/ns/web?port=80%2C90"
    assert forward_target(POD, Query("")) == "/portForward/ns/web"
