"""Tests for the cache of functions of texts."""

from __future__ import annotations

from nodeagent.base.text_cache import LONGEST, text_cache


def test_results_of_short_texts_are_cached_and_bounded() -> None:
    calls: list[str] = []

    @text_cache(2)
    def length(text: str, *, extra: int = 0) -> int:
        calls.append(text)
        return len(text) + extra

    assert [length("a"), length("a"), length("a", extra=1), length("b"), length("a")] == [1, 1, 2, 1, 1]
    assert calls == ["a", "a", "b", "a"]


def test_long_texts_are_not_cached() -> None:
    calls: list[str] = []
    measure = text_cache(10)(lambda text: calls.append(text) or len(text))

    assert [measure("x" * size) for size in (LONGEST, LONGEST, LONGEST + 1, LONGEST + 1)] == [256, 256, 257, 257]
    assert [len(text) for text in calls] == [LONGEST, LONGEST + 1, LONGEST + 1]
