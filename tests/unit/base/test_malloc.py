"""Tests for malloc tuning."""

from __future__ import annotations

import ctypes

import pytest

from nodeagent.base.malloc import trim_eagerly


class Library:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return 1


def test_threads_share_an_arena_that_is_trimmed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    trim_eagerly()
    assert library.calls[0] == (-8, 1)
    assert {parameter for parameter, _ in library.calls} == {-8, -1, -3}


def test_library_without_mallopt_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    trim_eagerly()
