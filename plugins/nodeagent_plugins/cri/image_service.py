"""The runtime's image store over CRI v1."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import content
from nodeagent.contracts.runtime import Credentials, FilesystemUsage, Image, SandboxConfig, Transfer
from nodeagent.errors import NotFound
from nodeagent_plugins.cri import requests, responses
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.errors import UnimplementedError


class CriImageService:
    """A :class:`~nodeagent.contracts.runtime.ImageService` behind a Unix socket.

    A pull has no bound, because only the runtime knows whether it advances; all else is bounded by
    ``runtimeRequestTimeout``. How far pulls are is no part of CRI: containerd tells, and who answers as it does.
    spec: config.imageServiceEndpoint, config.runtimeRequestTimeout
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._tells = True

    async def close(self) -> None:
        """Close the connection, also under a runtime that shares it."""
        await self.connection.close()

    async def list_images(self) -> Sequence[Image]:
        answer = await self.connection.call("ListImages", cri.ListImagesRequest(), "list images")
        return tuple(map(responses.image, answer.images))

    async def image_status(self, image: str) -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
        try:
            answer = await self.connection.call("ImageStatus", request, f'look at image "{image}"')
        except NotFound:
            return None
        return responses.image(answer.image) if answer.HasField("image") else None

    async def pull_image(
        self, image: str, credentials: Credentials | None = None, sandbox: SandboxConfig | None = None
    ) -> str:
        request = cri.PullImageRequest(image=cri.ImageSpec(image=image))
        if credentials is not None:
            request.auth.username, request.auth.password = credentials.username, credentials.password
        if sandbox is not None:
            request.image.annotations.update(sandbox.annotations)
            request.sandbox_config.CopyFrom(requests.sandbox_config(sandbox))
        answer = await self.connection.call("PullImage", request, f'pull image "{image}"', None)
        return str(answer.image_ref)

    async def remove_image(self, image: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image))
        await self.connection.call("RemoveImage", request, f'remove image "{image}"')

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        request = cri.ImageFsInfoRequest()
        answer = await self.connection.call("ImageFsInfo", request, "ask for the usage of the image file system")
        return tuple(map(responses.filesystem_usage, answer.image_filesystems))

    async def transfers(self) -> Sequence[Transfer] | None:
        """Return the parts of images that are under way; ``None`` once the runtime has said that it has no such call.

        :raises NodeAgentError: the runtime does not answer.
        """
        if not self._tells:
            return None
        request, what = content.ListStatusesRequest(), "ask how far pulls are"
        try:
            answer = await self.connection.call("ListStatuses", request, what, 0, content.NAMESPACE)
        except UnimplementedError:
            self._tells = False
            return None
        return tuple(Transfer(each.ref, each.offset, each.total) for each in answer.statuses)
