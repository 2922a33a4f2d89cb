"""What everything does that removes unused images."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection

import pytest

from nodeagent.contracts.images import ImageCollection, ImageCollector

Stored = Callable[[], Awaitable[Collection[str]]]


class ImageCollectorContract:
    """Fixtures to provide: ``collector``, ``stored``, and the images ``used`` and ``unused``, both in the store."""

    @pytest.fixture
    async def collector(self) -> AsyncIterator[ImageCollector]:
        """The implementation; the disk is not short of space."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def stored(self) -> Stored:
        """Return a function that returns the names of the images in the store."""
        raise NotImplementedError

    @pytest.fixture
    def used(self) -> str:
        """An image that a container uses."""
        raise NotImplementedError

    @pytest.fixture
    def unused(self) -> str:
        """An image that nobody uses, and that may go."""
        raise NotImplementedError

    async def test_nothing_goes_without_need(self, collector: ImageCollector, stored: Stored) -> None:
        before = set(await stored())
        await collector.collect()
        assert set(await stored()) == before

    async def test_a_dry_run_tells_and_removes_nothing(
        self, collector: ImageCollector, stored: Stored, used: str, unused: str
    ) -> None:
        before = set(await stored())
        told = await collector.collect(everything=True, dry_run=True)
        assert set(await stored()) == before
        assert goes(told, unused) and not goes(told, used)

    async def test_everything_that_nobody_uses_goes_on_demand(
        self, collector: ImageCollector, stored: Stored, used: str, unused: str
    ) -> None:
        done = await collector.collect(everything=True)
        assert used in await stored()
        assert unused not in await stored()
        assert goes(done, unused) and not goes(done, used)
        assert not [image.error for image in done.images if image.error]


def goes(collection: ImageCollection, name: str) -> bool:
    """Tell whether a collection removed, or would remove, an image; it has to know it, and to say why."""
    (image,) = [one for one in collection.images if name in one.image.repo_tags]
    assert bool(image.removal_reason) != bool(image.retained_reason), f"{name}: one reason is told, to stay or to go"
    return bool(image.removal_reason)
