"""Tests for the images of the fake runtime."""

from __future__ import annotations

import pytest

from nodeagent.testing import FakeImages
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


@pytest.mark.parametrize(
    ("name", "tags", "digests"),
    [
        ("web", ("web:latest",), ("web@sha256:",)),
        ("registry:5000/web:1", ("registry:5000/web:1",), ("registry:5000/web@sha256:",)),
        ("web@sha256:0", (), ("web@sha256:0",)),
    ],
)
async def test_image_has_a_tag_unless_it_is_named_by_digest(name, tags, digests):
    images = FakeImages()
    images.add(name)
    image = await images.image_status(name)
    assert image.repo_tags == tags
    assert [each.startswith(prefix) for each, prefix in zip(image.repo_digests, digests, strict=True)] == [True]
