"""Contract tests for image pullers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.images import ImagePuller
from nodeagent.errors import ImageError
from nodeagent.model.pod import ContainerKind
from nodeagent.testing.pods import make_container, make_pod


class ImagePullerContract:
    """Contract of :class:`ImagePuller`. Override the fixtures ``puller``, ``present`` and ``pullable``."""

    @pytest.fixture
    async def puller(self) -> AsyncIterator[ImagePuller]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def present(self) -> str:
        """An image in the store."""
        raise NotImplementedError

    @pytest.fixture
    def pullable(self) -> str:
        """An image in a registry, but not in the store."""
        raise NotImplementedError

    @pytest.fixture
    def absent(self) -> str:
        """An image that cannot be pulled."""
        return "127.0.0.1:1/no/such:image"

    @pytest.mark.parametrize("policy", ["Never", "IfNotPresent"])
    async def test_present_image_is_used(self, puller: ImagePuller, present: str, policy: str) -> None:
        container = make_container("main", image=present, image_pull_policy=policy)
        pulled = await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert pulled.ref
        assert present in pulled.image.repo_tags

    async def test_concurrent_pulls_return_the_same_image(self, puller: ImagePuller, pullable: str) -> None:
        container = make_container("main", image=pullable, image_pull_policy="IfNotPresent")
        pods = [make_pod(name, containers=[container]) for name in ("a", "b", "c")]
        pulled = await asyncio.gather(*(puller.ensure(pod, ContainerKind.REGULAR, container) for pod in pods))
        assert len({each.image.id for each in pulled}) == 1

    async def test_policy_never_raises_for_a_missing_image(self, puller: ImagePuller, pullable: str) -> None:
        container = make_container("main", image=pullable, image_pull_policy="Never")
        with pytest.raises(ImageError) as caught:
            await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert caught.value.reason == "ErrImageNeverPull"

    async def test_error_of_a_failed_pull_has_reason_and_image(self, puller: ImagePuller, absent: str) -> None:
        container = make_container("main", image=absent, image_pull_policy="IfNotPresent")
        with pytest.raises(ImageError) as caught:
            await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert caught.value.reason in ("ErrImagePull", "ImagePullBackOff")
        assert absent.partition(":image")[0] in str(caught.value)
