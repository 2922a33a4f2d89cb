"""CRI ImageService."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import cri_responses
from nodeagent_plugins.embedded_runtime.images.pull import Puller
from nodeagent_plugins.embedded_runtime.images.store import ImageStore


class ImageService:
    """Implements the calls with the image store.

    :param in_use: returns the layers of containers, including those of removed images.
    """

    def __init__(self, images: ImageStore, puller: Puller, in_use: Callable[[], Iterable[str]]) -> None:
        self._images, self._puller, self._in_use = images, puller, in_use

    async def list_images(self, request: cri.ListImagesRequest) -> cri.ListImagesResponse:
        requested = request.filter.image.image
        if requested:
            found = self._images.find(requested)
            return cri.ListImagesResponse(images=[cri_responses.image(found)] if found is not None else [])
        return cri.ListImagesResponse(images=map(cri_responses.image, self._images.all()))

    async def image_status(self, request: cri.ImageStatusRequest) -> cri.ImageStatusResponse:
        found = self._images.find(request.image.image)
        return cri.ImageStatusResponse(image=None if found is None else cri_responses.image(found))

    async def pull_image(self, request: cri.PullImageRequest) -> cri.PullImageResponse:
        image = await self._puller.pull(request.image.image, request.auth)
        return cri.PullImageResponse(image_ref=image.reference)

    async def remove_image(self, request: cri.RemoveImageRequest) -> cri.RemoveImageResponse:
        self._images.remove(request.image.image)
        await asyncio.to_thread(self._images.collect, list(self._in_use()))
        return cri.RemoveImageResponse()

    async def image_fs_info(self, _request: cri.ImageFsInfoRequest) -> cri.ImageFsInfoResponse:
        used, files = await asyncio.to_thread(self._images.usage)
        usage = cri.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=cri.FilesystemIdentifier(mountpoint=str(self._images.layers_dir)),
            used_bytes=cri.UInt64Value(value=used),
            inodes_used=cri.UInt64Value(value=files),
        )
        return cri.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
