"""Tests for similar names in suggestions."""

from __future__ import annotations

import pytest

from nodeagent.base.similarity import most_similar, similarity


@pytest.mark.parametrize(
    ("name", "cutoff", "expected"), [("maxPodz", 0.6, "maxPods"), ("maxPodz", 0.95, ""), ("other", 0.6, "")]
)
def test_most_similar_name_reaches_the_cutoff(name: str, cutoff: float, expected: str) -> None:
    assert most_similar(name, iter(["maxPods", "podCIDR"]), cutoff) == expected


def test_similarity_of_equal_texts_is_one() -> None:
    assert similarity("a", "a") == 1
    assert similarity("a", "b") == 0
