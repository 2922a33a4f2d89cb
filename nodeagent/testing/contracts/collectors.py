"""Contract tests for image garbage collectors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import pytest

from nodeagent.contracts.images import ImageCollection, ImageCollector

Stored = Callable[[], Awaitable[Collection[str]]]


class ImageCollectorContract:
    """Contract of :class:`ImageCollector`. Override the fixtures ``collector``, ``stored``, ``used`` and ``unused``."""

    @pytest.fixture
    async def collector(self) -> AsyncIterator[ImageCollector]:
        """The implementation to test, with sufficient disk space."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def stored(self) -> Stored:
        """Function that returns the names of the images in the store."""
        raise NotImplementedError

    @pytest.fixture
    def used(self) -> str:
        """An image in the store that a container uses."""
        raise NotImplementedError

    @pytest.fixture
    def unused(self) -> str:
        """An image in the store that is unused and may be removed."""
        raise NotImplementedError

    async def test_no_image_is_removed_with_sufficient_space(self, collector: ImageCollector, stored: Stored) -> None:
        before = set(await stored())
        await collector.collect()
        assert set(await stored()) == before

    async def test_dry_run_reports_images_without_removing_them(
        self, collector: ImageCollector, stored: Stored, used: str, unused: str
    ) -> None:
        before = set(await stored())
        result = await collector.collect(everything=True, dry_run=True)
        assert set(await stored()) == before
        assert is_removed(result, unused) and not is_removed(result, used)

    async def test_all_unused_images_are_removed_on_request(
        self, collector: ImageCollector, stored: Stored, used: str, unused: str
    ) -> None:
        result = await collector.collect(everything=True)
        assert used in await stored()
        assert unused not in await stored()
        assert is_removed(result, unused) and not is_removed(result, used)
        assert not [image.error for image in result.images if image.error]


def is_removed(collection: ImageCollection, name: str) -> bool:
    """Return whether a collection removed, or would remove, an image; check that it contains exactly one reason."""
    (image,) = [each for each in collection.images if name in each.image.repo_tags]
    assert bool(image.removal_reason) != bool(image.retained_reason), f"{name}: not exactly one reason"
    return bool(image.removal_reason)
