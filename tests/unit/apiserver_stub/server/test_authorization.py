"""Tests for authorizers built from options."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import User
from apiserver_stub.options import parse
from apiserver_stub.server.authorization import build_authorization
from tests.unit.apiserver_stub.authz.conftest import Memory, to


class Recorder:
    """Webhook that records its requests and allows all of them."""

    requests: list[Any]

    def __init__(self, *_: object, **__: object) -> None:
        Recorder.requests = []

    async def __aenter__(self) -> Recorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def post(self, body: Any) -> Any:
        self.requests.append(body)
        return {**body, "status": {"allowed": True}}


@pytest.mark.parametrize(("release", "metadata"), [("1.33", {"creationTimestamp": None}), ("1.34", {})])
async def test_reviews_have_null_times_in_early_releases(
    monkeypatch: pytest.MonkeyPatch, release: str, metadata: dict[str, Any]
) -> None:
    monkeypatch.setattr("apiserver_stub.server.authorization.Webhook", Recorder)
    store: Any = Memory()
    options = parse(
        [
            "--authorization-mode=Webhook",
            "--authorization-webhook-config-file=/x",
            f"--compatibility-version={release}",
        ]
    )

    async with AsyncExitStack() as stack:
        built = await build_authorization(options, store, stack)
        result = await built.chain.authorize(User("jane"), to("get", "pods", "n", "p"))

    assert result.allowed
    assert [request["metadata"] for request in Recorder.requests] == [metadata]
