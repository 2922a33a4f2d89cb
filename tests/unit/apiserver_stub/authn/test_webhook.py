"""Tests for the token webhook: responses, caching and deduplication."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import User
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.webhook import WebhookTokens
from apiserver_stub.webhook import WebhookError
from nodeagent.base.aio import TaskOwner
from nodeagent.base.identity import Identity
from nodeagent.testing.clock import FakeClock

API = ["https://api"]
USER = {"username": "eve", "uid": "u", "groups": ["dev"], "extra": {"team": ["a", "b"]}}


class Service:
    """Webhook with a fixed response."""

    def __init__(self, **status: Any) -> None:
        self.status: dict[str, Any] | None = status
        self.requests: list[dict[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def post(self, body: Any) -> Any:
        self.requests.append(body)
        await self.gate.wait()
        if self.status is None:
            raise WebhookError("answered 500")
        return {"kind": "TokenReview", "apiVersion": body["apiVersion"], "status": self.status}


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    async with TaskOwner("test") as owner:
        yield owner


def make(service: Any, tasks: TaskOwner, clock: FakeClock, *, version: str = "v1") -> WebhookTokens:
    return WebhookTokens(service, API, tasks, version=version, ttl_seconds=120, clock=clock, identity=Identity())


@pytest.mark.row("opt.authentication-token-webhook-version")
async def test_response_authenticates_the_user(tasks: TaskOwner, clock: FakeClock) -> None:
    for version in ("v1", "v1beta1"):
        service = Service(authenticated=True, user=USER)

        known = await make(service, tasks, clock, version=version).authenticate("t", API)

        assert known is not None
        assert known.user == User("eve", "u", ("dev",), {"team": ("a", "b")})
        assert known.audiences == ("https://api",)
        assert service.requests == [
            {
                "kind": "TokenReview",
                "apiVersion": f"authentication.k8s.io/{version}",
                "metadata": {"creationTimestamp": None},
                "spec": {"token": "t", "audiences": API},
                "status": {"user": {}},
            }
        ]


@pytest.mark.row("opt.authentication-token-webhook-cache-ttl")
async def test_decisions_are_cached_and_failures_are_not(tasks: TaskOwner, clock: FakeClock) -> None:
    for status in ({"authenticated": True, "user": USER}, {"authenticated": False}):
        service = Service(**status)
        tokens = make(service, tasks, clock)

        found = [await tokens.authenticate("t", API) for _ in range(2)]
        assert found[0] == found[1]
        assert len(service.requests) == 1
        await clock.advance(121)
        await tokens.authenticate("t", API)
        assert len(service.requests) == 2
    service = Service()
    service.status = None
    tokens = make(service, tasks, clock)
    for _ in range(2):
        with pytest.raises(Rejected, match="answered 500"):
            await tokens.authenticate("t", API)
    assert len(service.requests) == 2


async def test_concurrent_requests_of_a_token_share_one_call(tasks: TaskOwner, clock: FakeClock) -> None:
    service = Service(authenticated=True, user=USER)
    service.gate.clear()
    tokens = make(service, tasks, clock)
    requests = [asyncio.ensure_future(tokens.authenticate("t", API)) for _ in range(5)]
    await asyncio.sleep(0)
    requests[0].cancel()
    await asyncio.sleep(0)

    service.gate.set()

    assert len({known.user.name for known in await asyncio.gather(*requests[1:]) if known}) == 1
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    "status",
    [
        {"authenticated": False, "error": "unknown token"},
        {"authenticated": True, "user": None},
        {"authenticated": True, "user": {"username": 1}},
        {"authenticated": True, "user": USER, "audiences": ["other"]},
        {"authenticated": "yes", "user": USER},
    ],
    ids=["error", "no user", "bad name", "other audience", "not true"],
)
async def test_token_without_authenticated_status_is_rejected(
    tasks: TaskOwner, clock: FakeClock, status: dict[str, Any]
) -> None:
    try:
        assert await make(Service(**status), tasks, clock).authenticate("t", API) is None
    except Rejected as error:
        assert str(error)


async def test_response_of_another_kind_is_an_error(tasks: TaskOwner, clock: FakeClock) -> None:
    class Odd(Service):
        async def post(self, body: Any) -> Any:
            return ["TokenReview"]

    with pytest.raises(Rejected, match="not a TokenReview"):
        await make(Odd(), tasks, clock).authenticate("t", API)
