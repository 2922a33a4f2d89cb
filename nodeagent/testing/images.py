"""Fake image service: an in-memory image store and registry."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from nodeagent.contracts.runtime import Credentials, FilesystemUsage, Image, SandboxConfig
from nodeagent.errors import RuntimeFailure
from nodeagent.testing.faults import Faults


@dataclass(frozen=True, slots=True)
class Pull:
    """One call of :meth:`FakeImages.pull_image`."""

    image: str
    credentials: Credentials | None
    runtime_handler: str = ""


class FakeImages(Faults):
    """An :class:`~nodeagent.contracts.runtime.ImageService` in memory.

    :param open_registry: whether pulls of images that were not added with :meth:`serve` succeed.
    """

    def __init__(self, *, open_registry: bool = True) -> None:
        super().__init__()
        self.pulls: list[Pull] = []
        self.removed: list[str] = []
        self._open = open_registry
        self._images: dict[str, Image] = {}
        self._registry: dict[str, tuple[Image, tuple[str, str] | None]] = {}

    def add(
        self, ref: str, *, size_bytes: int = 1_000_000, uid: int | None = 0, username: str = "", pinned: bool = False
    ) -> Image:
        """Add an image to the store."""
        image = _image(ref, size_bytes, uid, username, pinned)
        self._images[image.id] = image
        return image

    def serve(
        self,
        ref: str,
        credentials: tuple[str, str] | None = None,
        *,
        size_bytes: int = 1_000_000,
        uid: int | None = 0,
        username: str = "",
    ) -> None:
        """Add an image to the registry; *credentials*, a user name and a password, are required for its pull."""
        self._registry[ref] = (_image(ref, size_bytes, uid, username, False), credentials)

    async def list_images(self) -> Sequence[Image]:
        await self._pass("list_images")
        return tuple(self._images.values())

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        await self._pass("image_status")
        return self.find(image)

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None = None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        self.pulls.append(Pull(image, credentials, runtime_handler))
        await self._pass("pull_image")
        if image not in self._registry:
            if not self._open:
                raise RuntimeFailure(f"pull {image}: registry returned 404")
            return self.add(image).id
        served, required = self._registry[image]
        presented = (credentials.username, credentials.password) if credentials else None
        if required is not None and presented != required:
            raise RuntimeFailure(f"pull {image}: registry returned 401")
        self._images[served.id] = served
        return served.id

    async def remove_image(self, image: str) -> None:
        await self._pass("remove_image")
        stored = self.find(image)
        if stored is not None:
            del self._images[stored.id]
            self.removed.append(image)

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        await self._pass("filesystem_usage")
        used = sum(image.size_bytes for image in self._images.values())
        return (FilesystemUsage("/var/lib/images", used, 10 * len(self._images)),)

    def find(self, image: str) -> Image | None:
        """Return the stored image with the ID, tag or digest *image*."""
        names = {image, normal(image)}
        return next(
            (
                each
                for each in self._images.values()
                if names & {each.id, each.id.removeprefix("sha256:"), *each.repo_tags, *each.repo_digests}
            ),
            None,
        )


def normal(ref: str) -> str:
    """Return *ref* as listed by image stores: with a tag unless it has a digest."""
    return ref if "@" in ref or ":" in ref.rpartition("/")[2] else f"{ref}:latest"


def _image(ref: str, size_bytes: int, uid: int | None, username: str, pinned: bool) -> Image:
    name = normal(ref)
    repository = name.partition("@")[0] if "@" in name else name.rpartition(":")[0]
    digest = hashlib.sha256(name.encode()).hexdigest()
    return Image(
        id=f"sha256:{digest}",
        repo_tags=() if "@" in name else (name,),
        repo_digests=(name,) if "@" in name else (f"{repository}@sha256:{digest}",),
        size_bytes=size_bytes,
        uid=uid,
        username=username,
        pinned=pinned,
    )
