"""Tests for the growth of memory over the rounds of a simulation."""

import pytest

from nodeagent.base.simulation.memory import MemoryGrowth, count_blocks


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
def test_least_memory_of_the_thirds_is_compared(blocks, problem):
    growth = MemoryGrowth(iter(blocks).__next__)
    for _ in blocks:
        growth.record()

    assert growth.problem() == problem


def test_objects_that_are_kept_are_counted():
    before = count_blocks()

    kept = [object() for _ in range(1000)]

    assert count_blocks() >= before + len(kept)
