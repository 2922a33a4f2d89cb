"""Tests for the images of the fake runtime."""

from __future__ import annotations

import pytest

from nodeagent.testing.images import normal


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web:1", "registry:5000/web:1"),
        ("web@sha256:0", "web@sha256:0"),
    ],
)
def test_images_are_listed_with_a_tag_or_digest(name: str, listed: str) -> None:
    assert normal(name) == listed
