"""Tests for the store monitor: health probes and their interval."""

from __future__ import annotations

import pytest

from apiserver_stub.storage import StoreUnavailable, monitor
from apiserver_stub.storage.monitor import Check, StoreMonitor


class Silent:
    """Store that does not respond."""

    async def count(self, name: str) -> int:
        raise StoreUnavailable(name)

    async def sizes(self) -> dict[str, int]:
        raise StoreUnavailable("none")


async def test_probe_runs_at_most_every_half_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now, requested = [100.0], []

    class Time:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    async def probe(seconds: float) -> str:
        requested.append(seconds)
        return "ill" if len(requested) == 1 else ""

    monkeypatch.setattr(monitor, "time", Time)
    check = Check(probe, 4)
    assert await check.problem() == "ill"
    now[0] += 1.9
    assert await check.problem() == "ill"
    now[0] += 0.2
    assert await check.problem() == ""
    assert requested == [4, 4]


async def test_zero_timeout_means_two_seconds() -> None:
    requested = []

    async def probe(seconds: float) -> str:
        requested.append(seconds)
        return ""

    await Check(probe, 0).problem()
    assert requested == [2.0]


async def test_count_of_an_unresponsive_store_is_minus_one() -> None:
    found = StoreMonitor(Silent())  # type: ignore[arg-type]
    found.sizes = {"x": 1}

    await found.count(["core/pods"])
    await found.measure()

    assert (found.objects, found.sizes) == ({"core/pods": -1}, {})


class Counting(Silent):
    async def count(self, name: str) -> int:
        return len(name)


async def test_counts_of_collections_that_are_no_longer_served_are_dropped() -> None:
    found = StoreMonitor(Counting())  # type: ignore[arg-type]
    found.objects = {"core/pods": 1, "old/kinds": 3}

    await found.count(["core/pods", "core/nodes"])

    assert found.objects == {"core/pods": 9, "core/nodes": 10}


async def test_probe_runs_again_at_half_of_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now, requested = [100.0], []

    async def probe(seconds: float) -> str:
        requested.append(seconds)
        return ""

    monkeypatch.setattr(monitor.time, "monotonic", lambda: now[0])
    check = Check(probe, 4)
    await check.problem()
    now[0] += 2
    await check.problem()
    assert len(requested) == 2
