"""Tests for the directories of local-path volumes on nodes: requests and errors of their agents."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError, not_found
from apiserver_stub.controllers.volumes.local_directories import LocalDirectories, NodeUnavailable
from apiserver_stub.nodes.agents import Unreachable
from nodeagent.base.identity import Identity


class FakeAgent:
    """Agent of the node ``a`` that sends one response; ``None`` if it cannot be reached."""

    def __init__(self, status: int | None, body: bytes = b"", **labels: str) -> None:
        self._status, self._body, self._labels = status, body, labels
        self.calls: list[Any] = []

    def node(self, name: str, kind: str = "nodes") -> Any:
        if name != "a":
            raise not_found("", kind, name)
        return {"metadata": {"name": name, **({"labels": self._labels} if self._labels else {})}}

    async def call(self, node_name: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        self.calls.append((node_name, method, path, json.loads(body or b"null")))
        if self._status is None:
            raise Unreachable("connection refused")
        return self._status, self._body


async def create(agent: FakeAgent, node: str = "a") -> str:
    return await LocalDirectories(agent, Identity()).create(node, "v", 5)


async def test_directory_is_created_with_its_capacity_and_deleted() -> None:
    agent = FakeAgent(200, b'{"path": "/data/v"}')

    assert await create(agent) == "/data/v"
    await LocalDirectories(agent, Identity()).delete("a", "v")
    assert agent.calls == [("a", "POST", "/localVolumes/v", {"capacity": 5}), ("a", "DELETE", "/localVolumes/v", None)]


@pytest.mark.parametrize(
    ("status", "body", "kind", "code", "text"),
    [
        (500, b" disk full\n", NodeUnavailable, None, "node a: disk full"),
        (503, b"", NodeUnavailable, None, "node a: HTTP status 503"),
        (499, b"no", ApiError, 499, "node a: no"),
        (404, b"not found", ApiError, 501, "node a does not provide local volumes"),
        (None, b"", NodeUnavailable, None, "node a: error trying to reach service: connection refused"),
        *((200, body, ApiError, 502, "node a returned no path for volume v") for body in (b"x", b"{}", b"[]", b"1")),
        *(
            (200, b'{"path": %s}' % path, ApiError, 502, "node a returned no path")
            for path in (b"5", b'"data"', b"null")
        ),
    ],
)
async def test_failed_request_is_an_error(status: Any, body: bytes, kind: Any, code: int | None, text: str) -> None:
    with pytest.raises(kind, match=text) as error:
        await create(FakeAgent(status, body))

    if code is not None:
        assert (type(error.value), error.value.code) == (ApiError, code)


async def test_directory_of_a_missing_node_is_not_found() -> None:
    agent = FakeAgent(200)

    with pytest.raises(ApiError) as error:
        await create(agent, "b")
    assert (error.value.code, agent.calls) == (404, [])


@pytest.mark.parametrize(("labels", "name"), [({"kubernetes.io/hostname": "host"}, "host"), ({}, "a")])
def test_host_name_is_that_of_the_label_or_the_node(labels: dict[str, str], name: str) -> None:
    assert LocalDirectories(FakeAgent(200, **labels), Identity()).hostname("a") == name
