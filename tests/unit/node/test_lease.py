"""Tests for the node lease: retries, owner and log messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodeagent.contracts.api import LEASES
from nodeagent.errors import ApiConflict, ApiError, ApiUnavailable
from nodeagent.node.lease import NodeLease
from nodeagent.testing import FakeApi, FakeClock

FAILED_TO_CREATE, FAILED_TO_UPDATE = "Failed to ensure lease exists, will retry", "Failed to update lease"
RECOVERED = "Lease updates recovered"


@asynccontextmanager
async def renewed(api: FakeApi, clock: FakeClock, uid: str = "") -> AsyncIterator[None]:
    """Renew a lease of 40 seconds."""
    task = asyncio.create_task(NodeLease(api, "node-1", 40, clock, lambda: uid).run())
    await clock.advance(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def lease(api: FakeApi) -> dict[str, Any]:
    found = api.find(LEASES, "node-1", "kube-node-lease")
    assert found is not None
    return found


async def test_first_lease_is_retried_soon_after_a_failure(api: FakeApi, clock: FakeClock) -> None:
    api.fail("create", ApiError("forbidden", code=403), times=3)
    async with renewed(api, clock):
        await clock.advance(1)

        assert len(api.made("create", LEASES)) == 4


async def test_failed_update_is_retried_after_the_renewal_period(api: FakeApi, clock: FakeClock) -> None:
    async with renewed(api, clock):
        api.fail("update", ApiError("forbidden", code=403), times=2)
        await clock.advance(11)
        assert len(api.made("update", LEASES)) == 1
        await clock.advance(8)
        assert len(api.made("update", LEASES)) == 1
        await clock.advance(2)
        assert len(api.made("update", LEASES)) == 2


@pytest.mark.parametrize("error", [ApiConflict("changed", code=409), ApiUnavailable("no answer")])
async def test_renewal_fails_after_five_attempts(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture, error: ApiError
) -> None:
    async with renewed(api, clock):
        api.fail("update", error, times=4)
        await clock.advance(11)
        assert (len(api.made("update", LEASES)), caplog.messages) == (5, [])

        api.fail("update", error, times=5)
        await clock.advance(11)

        [record] = caplog.records
        assert record.err == str(error)  # type: ignore[attr-defined]


async def test_first_failure_and_recovery_are_logged(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with renewed(api, clock):
        await clock.advance(11)
        assert caplog.messages == []
        api.fail("update", ApiError("forbidden", code=403), times=3)
        await clock.advance(60)

    assert caplog.messages == [FAILED_TO_UPDATE, RECOVERED]


async def test_failure_without_a_lease_is_logged_with_the_interval(
    api: FakeApi, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    api.fail("create", ApiError("forbidden", code=403), times=2)
    async with renewed(api, clock):
        await clock.advance(5)

    assert caplog.messages == [FAILED_TO_CREATE, RECOVERED]
    assert caplog.records[0].interval == 10  # type: ignore[attr-defined]


async def test_node_becomes_the_owner_once_registered(api: FakeApi, clock: FakeClock) -> None:
    async with renewed(api, clock):
        assert "ownerReferences" not in lease(api)["metadata"]
    async with renewed(api, clock, uid="u1"):
        assert lease(api)["metadata"]["ownerReferences"] == [
            {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}
        ]
    async with renewed(api, clock, uid="u2"):
        assert [owner["uid"] for owner in lease(api)["metadata"]["ownerReferences"]] == ["u1"]
