"""What everything does that gets images onto the node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.images import ImagePuller
from nodeagent.errors import ImageError
from nodeagent.model.pod import ContainerKind
from nodeagent.testing.pods import make_container, make_pod


class ImagePullerContract:
    """Fixtures to provide: ``puller``, ``present`` in the store, ``pullable`` from a registry, ``absent`` nowhere."""

    @pytest.fixture
    async def puller(self) -> AsyncIterator[ImagePuller]:
        """The implementation."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def present(self) -> str:
        """An image that is in the store."""
        raise NotImplementedError

    @pytest.fixture
    def pullable(self) -> str:
        """An image that a registry has and the store has not."""
        raise NotImplementedError

    @pytest.fixture
    def absent(self) -> str:
        """An image that is nowhere."""
        return "127.0.0.1:1/no/such:image"

    @pytest.mark.parametrize("policy", ["Never", "IfNotPresent"])
    async def test_an_image_of_the_store_is_used(self, puller: ImagePuller, present: str, policy: str) -> None:
        container = make_container("main", image=present, image_pull_policy=policy)
        found = await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert found.ref
        assert present in found.image.repo_tags

    async def test_an_image_of_a_registry_is_pulled_once_for_many(self, puller: ImagePuller, pullable: str) -> None:
        container = make_container("main", image=pullable, image_pull_policy="IfNotPresent")
        pods = [make_pod(name, containers=[container]) for name in ("a", "b", "c")]
        found = await asyncio.gather(*(puller.ensure(pod, ContainerKind.REGULAR, container) for pod in pods))
        assert len({one.image.id for one in found}) == 1

    async def test_without_leave_to_pull_it_says_so(self, puller: ImagePuller, pullable: str) -> None:
        container = make_container("main", image=pullable, image_pull_policy="Never")
        with pytest.raises(ImageError) as caught:
            await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert caught.value.reason == "ErrImageNeverPull"

    async def test_a_failed_pull_has_a_reason_and_names_the_image(self, puller: ImagePuller, absent: str) -> None:
        container = make_container("main", image=absent, image_pull_policy="IfNotPresent")
        with pytest.raises(ImageError) as caught:
            await puller.ensure(make_pod(containers=[container]), ContainerKind.REGULAR, container)
        assert caught.value.reason in ("ErrImagePull", "ImagePullBackOff")
        assert absent.partition(":image")[0] in str(caught.value)
