"""Tests for the selection of images by the image service."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import cri_responses
from nodeagent_plugins.embedded_runtime.image_service import ImageService


class Images:
    """Images by name."""

    def __init__(self) -> None:
        self.names = ["a", "b"]
        self.layers: list[str] = []

    def all(self) -> list[str]:
        return self.names

    def find(self, name: str) -> str | None:
        return name if name in self.names else None

    def remove(self, name: str) -> None:
        self.names.remove(name)

    def collect(self, used: list[str]) -> None:
        self.layers = used


@pytest.fixture
def images() -> Images:
    return Images()


@pytest.fixture
def service(images: Images, monkeypatch: pytest.MonkeyPatch) -> ImageService:
    monkeypatch.setattr(cri_responses, "image", lambda name: cri.Image(id=name))
    found: Any = images

    async def pull(name: str, _auth: Any) -> Any:
        return SimpleNamespace(reference=f"{name}@sha256:1")

    puller: Any = SimpleNamespace(pull=pull)
    return ImageService(found, puller, lambda: iter(["layer"]))


@pytest.mark.parametrize(("name", "expected"), [("", ["a", "b"]), ("b", ["b"]), ("c", [])])
async def test_images_are_listed_by_name(service: ImageService, name: str, expected: list[str]) -> None:
    request = cri.ListImagesRequest(filter=cri.ImageFilter(image=cri.ImageSpec(image=name)))

    assert [image.id for image in (await service.list_images(request)).images] == expected


async def test_status_of_a_missing_image_is_empty(service: ImageService) -> None:
    found, missing = [
        await service.image_status(cri.ImageStatusRequest(image=cri.ImageSpec(image=name))) for name in ("a", "c")
    ]

    assert found.image.id == "a"
    assert not missing.HasField("image")


async def test_layers_of_containers_are_kept_when_an_image_is_removed(service: ImageService, images: Images) -> None:
    await service.remove_image(cri.RemoveImageRequest(image=cri.ImageSpec(image="a")))

    assert (images.names, images.layers) == (["b"], ["layer"])


async def test_pulled_image_is_returned_by_reference(service: ImageService) -> None:
    response = await service.pull_image(cri.PullImageRequest(image=cri.ImageSpec(image="a")))

    assert response.image_ref == "a@sha256:1"
