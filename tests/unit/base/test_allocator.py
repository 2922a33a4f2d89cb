"""Settings of the C library are asked for once, and their absence harms nobody."""

from __future__ import annotations

import ctypes

import pytest

from nodeagent.base.allocator import give_back_early


class Library:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return 1


def test_threads_share_a_heap_and_its_end_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: library)
    give_back_early()
    assert library.calls[0] == (-8, 1)
    assert {parameter for parameter, _ in library.calls} == {-8, -1, -3}


def test_a_library_without_settings_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    give_back_early()
