"""Leases are shared for a while, and never end before a record should."""

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
async def test_a_lease_is_shared_as_long_as_its_record_lives_long_enough(granted: Granted) -> None:
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
async def test_the_longer_life_is_a_small_part_of_a_short_one(granted: Granted) -> None:
    leases = Leases(granted, 60, FakeClock())

    await leases.lease(100)
    await leases.lease(3600)

    assert granted.seconds == [105, 3660]


async def test_without_reuse_each_record_has_its_own(granted: Granted) -> None:
    leases = Leases(granted, 0, FakeClock())

    assert [await leases.lease(60), await leases.lease(60)] == [1, 2]
    assert granted.seconds == [60, 60]


async def test_not_too_many_end_at_once(granted: Granted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RECORDS", 2)
    leases = Leases(granted, 60, FakeClock())

    assert [await leases.lease(3600) for _ in range(5)] == [1, 1, 2, 2, 3]


async def test_a_lease_that_is_gone_is_not_handed_out(granted: Granted) -> None:
    leases = Leases(granted, 60, FakeClock())
    leases.drop(await leases.lease(3600))

    assert await leases.lease(3600) == 2
