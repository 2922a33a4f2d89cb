"""Tests for malloc tuning."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nodeagent.base import malloc
from nodeagent.base.malloc import trim_eagerly


class Library:
    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def mallopt(self, parameter: int, value: int) -> int:
        self.calls.append((parameter, value))
        return 1


def test_threads_share_an_arena_that_is_trimmed_early(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(malloc, "libc", lambda: library)
    trim_eagerly()
    assert library.calls[0] == (-8, 1)
    assert {parameter for parameter, _ in library.calls} == {-8, -1, -3}


def test_library_without_mallopt_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "libc", object)
    trim_eagerly()


_FREED_BLOCK = """
from nodeagent.base.malloc import resident_bytes, trim_eagerly
trim_eagerly(1 << 20)
bytes(bytearray(24 << 20))  # Once freed, such a block would raise the thresholds of the C library.
before = resident_bytes()
large = bytearray(24 << 20)
large[:] = b"x" * len(large)
small = [bytes(bytearray(1000)) for _ in range(1000)]
del large
print((resident_bytes() - before) >> 20)
"""


_GAPS = """
from nodeagent.base.malloc import resident_bytes, trim
blocks = [bytes(bytearray(4000)) for _ in range(8000)]
retained = blocks[::100]
del blocks
before = resident_bytes()
trim()
print((before - resident_bytes()) >> 20)
"""


def test_gaps_among_blocks_are_returned_to_the_kernel() -> None:
    output = subprocess.run([sys.executable, "-c", _GAPS], capture_output=True, text=True, check=True).stdout
    assert int(output) > 20


def test_freed_large_blocks_leave_no_gaps_among_small_ones() -> None:
    output = subprocess.run([sys.executable, "-c", _FREED_BLOCK], capture_output=True, text=True, check=True).stdout
    assert int(output) < 8
