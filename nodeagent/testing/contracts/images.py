"""Contract tests for image services."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.runtime import ImageService
from nodeagent.errors import RuntimeFailure


class ImageServiceContract:
    """Contract of :class:`ImageService`. Override the fixtures ``images`` and ``present``."""

    @pytest.fixture
    async def images(self) -> AsyncIterator[ImageService]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def present(self) -> str:
        """Full name of an image in the store."""
        raise NotImplementedError

    @pytest.fixture
    def absent(self) -> str:
        """Name of an image that cannot be pulled."""
        return "127.0.0.1:1/no/such:image"

    async def test_stored_image_is_found_by_name_and_by_id(self, images: ImageService, present: str) -> None:
        by_name = await images.image_status(present)
        assert by_name is not None
        assert present in by_name.repo_tags
        by_id = await images.image_status(by_name.id)
        assert by_id is not None and by_id.id == by_name.id
        assert by_name.size_bytes > 0

    async def test_stored_image_is_listed(self, images: ImageService, present: str) -> None:
        assert present in {tag for image in await images.list_images() for tag in image.repo_tags}

    async def test_status_of_an_unknown_image_is_none(self, images: ImageService, absent: str) -> None:
        assert await images.image_status(absent) is None

    async def test_error_of_a_failed_pull_contains_the_image(self, images: ImageService, absent: str) -> None:
        with pytest.raises(RuntimeFailure) as caught:
            await images.pull_image(absent)
        assert absent.partition(":image")[0] in str(caught.value)

    async def test_removing_an_unknown_image_does_not_raise(self, images: ImageService, absent: str) -> None:
        await images.remove_image(absent)

    async def test_filesystem_usage_has_mountpoint_and_used_bytes(self, images: ImageService) -> None:
        usage = await images.filesystem_usage()
        assert usage and all(each.mountpoint and each.used_bytes >= 0 for each in usage)
