"""Tests for the reuse of etcd leases; no lease expires before its records."""

from __future__ import annotations

import pytest

from apiserver_stub.storage.etcd import leases as module
from apiserver_stub.storage.etcd.leases import Leases
from nodeagent.testing import FakeClock


class Granted:
    def __init__(self) -> None:
        self.seconds: list[int] = []

    async def __call__(self, seconds: int) -> int:
        self.seconds.append(seconds)
        return len(self.seconds)


@pytest.fixture
def granted() -> Granted:
    return Granted()


@pytest.mark.row("opt.lease-reuse-duration-seconds")
async def test_lease_is_reused_while_its_remaining_ttl_suffices(granted: Granted) -> None:
    clock = FakeClock()
    leases = Leases(granted, 60, clock)

    first = await leases.lease(3600)
    await clock.advance(60)
    again = await leases.lease(3600)
    await clock.advance(1)
    later = await leases.lease(3600)

    assert (first, again, later) == (1, 1, 2)
    assert granted.seconds == [3660, 3660]


@pytest.mark.row("opt.lease-reuse-duration-seconds")
async def test_extension_is_a_small_fraction_of_a_short_ttl(granted: Granted) -> None:
    leases = Leases(granted, 60, FakeClock())

    await leases.lease(100)
    await leases.lease(3600)

    assert granted.seconds == [105, 3660]


async def test_disabled_reuse_creates_a_lease_per_record(granted: Granted) -> None:
    leases = Leases(granted, 0, FakeClock())

    assert [await leases.lease(60), await leases.lease(60)] == [1, 2]
    assert granted.seconds == [60, 60]


async def test_records_per_lease_are_limited(granted: Granted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 2)
    leases = Leases(granted, 60, FakeClock())

    assert [await leases.lease(3600) for _ in range(5)] == [1, 1, 2, 2, 3]


async def test_expired_lease_is_not_reused(granted: Granted) -> None:
    leases = Leases(granted, 60, FakeClock())
    leases.drop(await leases.lease(3600))

    assert await leases.lease(3600) == 2
