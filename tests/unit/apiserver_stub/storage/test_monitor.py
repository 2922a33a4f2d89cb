"""The store is asked from time to time, and not more often."""

from __future__ import annotations

import pytest

from apiserver_stub.storage import StoreUnavailable, monitor
from apiserver_stub.storage.monitor import Check, StoreMonitor


class Silent:
    """A store that does not answer."""

    async def count(self, name: str) -> int:
        raise StoreUnavailable(name)

    async def sizes(self) -> dict[str, int]:
        raise StoreUnavailable("none")


async def test_a_probe_is_asked_at_most_every_half_of_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [100.0], []

    class Time:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    async def probe(seconds: float) -> str:
        asked.append(seconds)
        return "ill" if len(asked) == 1 else ""

    monkeypatch.setattr(monitor, "time", Time)
    check = Check(probe, 4)
    assert await check.problem() == "ill"
    now[0] += 1.9
    assert await check.problem() == "ill"
    now[0] += 0.2
    assert await check.problem() == ""
    assert asked == [4, 4]


async def test_no_timeout_is_two_seconds() -> None:
    asked = []

    async def probe(seconds: float) -> str:
        asked.append(seconds)
        return ""

    await Check(probe, 0).problem()
    assert asked == [2.0]


async def test_a_store_that_does_not_answer_counts_less_than_nothing() -> None:
    found = StoreMonitor(Silent())  # type: ignore[arg-type]
    found.sizes = {"x": 1}

    await found.count(["core/pods"])
    await found.measure()

    assert (found.objects, found.sizes) == ({"core/pods": -1}, {})
