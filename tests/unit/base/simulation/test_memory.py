"""Tests for the growth of memory over the rounds of a simulation."""

import sys

import pytest

from nodeagent.base.simulation.memory import MemoryGrowth


@pytest.mark.parametrize(
    ("blocks", "problem"),
    [
        ([100] * 8 + [200], ""),
        ([100, 200, 300, 1000, 1010, 1040, 1030, 1200, 1100], ""),
        (
            [100, 200, 300, 1000, 1010, 1040, 1031, 1200, 1100],
            "memory grows: 1000 blocks are allocated, 3 hours later at least 1031",
        ),
        ([100, 200, 300, 400, 500, 600, 700, 800], ""),
    ],
)
def test_least_memory_of_the_thirds_is_compared(monkeypatch, blocks, problem):
    growth = MemoryGrowth()
    for number in blocks:
        monkeypatch.setattr(sys, "getallocatedblocks", lambda number=number: number)
        growth.record()

    assert growth.problem() == problem


def test_objects_that_are_kept_are_found():
    growth, kept = MemoryGrowth(), []
    for _ in range(12):
        kept += [object() for _ in range(200_000)]
        growth.record()

    assert growth.problem().startswith("memory grows: ")
