"""Tests for size classes of images."""

from __future__ import annotations

import pytest

from nodeagent_plugins.image_pull.size_class import size_class

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("size_bytes", "name"),
    [
        (0, "N/A"),
        (1, "0-10MB"),
        (10 * MIB, "0-10MB"),
        (10 * MIB + 1, "10MB-100MB"),
        (500 * MIB, "100MB-500MB"),
        (GIB, "500MB-1GB"),
        (2 * GIB, "1GB-5GB"),
        (100 * GIB, "60GB-100GB"),
        (101 * GIB, "GT100GB"),
    ],
)
def test_upper_bound_belongs_to_the_class(size_bytes: int, name: str) -> None:
    assert size_class(size_bytes) == name
