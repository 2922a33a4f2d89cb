"""Tests for the cache of function results that drops unused ones."""

from __future__ import annotations

import pytest

from nodeagent.base.aging_cache import AgingCache, age_caches, aging_cache, cleared_cache


def test_results_are_dropped_after_two_periods_without_use() -> None:
    calls: list[str] = []

    @aging_cache(10)
    def compiled(text: str, *, strict: bool = False) -> object:
        calls.append(text)
        return object()

    used, strict = compiled("used"), compiled("used", strict=True)
    compiled("unused")
    for _ in range(3):
        age_caches()
        assert compiled("used") is used
        assert compiled("used", strict=True) is strict
    compiled("unused")

    assert used is not strict
    assert calls == ["used", "used", "unused", "unused"]


def test_number_of_results_is_limited() -> None:
    calls: list[int] = []

    @aging_cache(2)
    def double(number: int) -> int:
        calls.append(number)
        return 2 * number

    for number in (1, 2, 3, 1, 4, 5, 2):  # 1 is used again before the third result of its period
        assert double(number) == 2 * number

    assert calls == [1, 2, 3, 4, 5, 2]


def test_errors_are_not_cached() -> None:
    calls: list[str] = []

    @aging_cache(10)
    def fail(text: str) -> None:
        calls.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            fail("a")

    assert calls == ["a", "a"]


def test_cleared_results_are_dropped_at_each_call() -> None:
    calls: list[str] = []

    @cleared_cache(2)
    def length(text: str, *, extra: int = 0) -> int:
        calls.append(text)
        return len(text) + extra

    assert [length(text) for text in ("a", "b", "a", "c", "c")] == [1] * 5
    age_caches()
    assert length("c", extra=1) == 2
    assert length("c") == 1

    assert calls == ["a", "b", "c", "c", "c"]


def test_cleared_cache_is_empty() -> None:
    cache: AgingCache[str] = AgingCache(10)
    cache.put("older", "1")
    cache.age()
    cache.put("used", "2")

    cache.clear()

    assert [cache.get(key) for key in ("older", "used")] == [None, None]
