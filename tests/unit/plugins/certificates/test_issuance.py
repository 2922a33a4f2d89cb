"""Tests for the certificates API: the state of a request that ends the wait for its certificate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodeagent.contracts.api import WatchEvent, WatchType
from nodeagent.errors import ApiError, ApiUnavailable
from nodeagent.testing import FakeApi, FakeClock
from nodeagent_plugins.certificates.issuance import REQUESTS, RequestRejectedError, issued

APPROVED = {"type": "Approved", "status": "True"}
CERTIFICATE = {"certificate": "UEVN"}  # "PEM"


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    api = FakeApi(clock)
    api.put(REQUESTS, {"metadata": {"name": "csr-1", "uid": "u-1"}, "spec": {}})
    return api


@asynccontextmanager
async def waiting(api: FakeApi, clock: FakeClock) -> AsyncIterator[asyncio.Task[str]]:
    task = asyncio.create_task(issued(api, clock, "csr-1", "u-1"))
    try:
        await clock.settle()
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def set_status(api: FakeApi, status: dict[str, Any] | None) -> None:
    api.put(REQUESTS, {"metadata": {"name": "csr-1"}, "spec": {}, "status": status})


@pytest.mark.parametrize(
    "pending",
    [
        None,
        {"conditions": None},
        {"conditions": [APPROVED]},
        {"conditions": [APPROVED], "certificate": ""},
        CERTIFICATE,
        {"conditions": [{"type": "Other", "status": "True"}], **CERTIFICATE},
    ],
)
@pytest.mark.parametrize("initially", [True, False])
async def test_wait_ends_when_the_request_is_approved_and_has_a_certificate(
    api: FakeApi, clock: FakeClock, pending: dict[str, Any] | None, initially: bool
) -> None:
    if initially:
        set_status(api, pending)
    async with waiting(api, clock) as task:
        set_status(api, pending)
        await clock.settle()
        assert not task.done()

        set_status(api, {"conditions": [APPROVED, {"type": "Other", "status": "True"}], **CERTIFICATE})
        await clock.settle()

        assert task.result() == "PEM"


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        ({"message": "not this one", "reason": "Policy"}, "csr-1 denied: not this one"),
        ({"reason": "Policy"}, "csr-1 denied: Policy"),
        ({}, "csr-1 denied: no reason"),
    ],
)
async def test_denied_request_is_rejected_with_message_or_reason(
    api: FakeApi, clock: FakeClock, texts: dict[str, str], error: str
) -> None:
    set_status(api, {"conditions": [APPROVED, {"type": "Denied", "status": "True", **texts}], **CERTIFICATE})
    async with waiting(api, clock) as task:
        with pytest.raises(RequestRejectedError, match=f"{error}$"):
            task.result()


@pytest.mark.parametrize("initially", [True, False])
async def test_deleted_request_is_rejected(api: FakeApi, clock: FakeClock, initially: bool) -> None:
    if initially:
        api.remove(REQUESTS, "csr-1")
    async with waiting(api, clock) as task:
        if not initially:
            api.remove(REQUESTS, "csr-1")
            await clock.settle()
        with pytest.raises(RequestRejectedError, match="csr-1 was deleted"):
            task.result()


async def test_request_of_another_client_with_the_same_name_is_rejected(api: FakeApi, clock: FakeClock) -> None:
    api.remove(REQUESTS, "csr-1")
    api.put(
        REQUESTS, {"metadata": {"name": "csr-1", "uid": "u-2"}, "status": {"conditions": [APPROVED], **CERTIFICATE}}
    )
    async with waiting(api, clock) as task:
        with pytest.raises(RequestRejectedError, match="csr-1 was replaced by another one"):
            task.result()


async def test_forbidden_request_is_not_retried_but_an_outage_is(api: FakeApi, clock: FakeClock) -> None:
    api.fail("list", ApiUnavailable("no connection"))
    async with waiting(api, clock) as task:
        assert not task.done()
        api.fail("list", ApiError("forbidden", code=403))
        await clock.advance(2)
        with pytest.raises(ApiError, match="forbidden"):
            task.result()


class BookmarkApi(FakeApi):
    """An API server whose watch starts with a bookmark, which has only a resource version."""

    async def watch(self, *args: Any, **options: Any) -> AsyncIterator[WatchEvent[Any]]:  # type: ignore[override]
        yield WatchEvent(WatchType.BOOKMARK, {"metadata": {"resourceVersion": "9"}}, "9")
        async for event in super().watch(*args, **options):
            yield event


async def test_bookmarks_of_the_watch_are_skipped(clock: FakeClock) -> None:
    api = BookmarkApi(clock)
    api.put(REQUESTS, {"metadata": {"name": "csr-1", "uid": "u-1"}, "spec": {}})
    async with waiting(api, clock) as task:
        set_status(api, {"conditions": [APPROVED], **CERTIFICATE})
        await clock.settle()
        assert task.result() == "PEM"
