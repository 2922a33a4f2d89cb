"""Image service over CRI v1."""

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
    """:class:`~nodeagent.contracts.runtime.ImageService` on a Unix socket.

    A pull has no timeout, because only the runtime can detect whether it makes progress; every other call is bounded by
    ``runtimeRequestTimeout``. CRI does not report the progress of pulls; containerd's content service does.
    spec: config.imageServiceEndpoint, config.runtimeRequestTimeout
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._reports_progress = True

    async def close(self) -> None:
        """Close the connection, which a runtime client may share."""
        await self.connection.close()

    async def list_images(self) -> Sequence[Image]:
        response = await self.connection.call("ListImages", cri.ListImagesRequest(), "list images")
        return tuple(map(responses.image, response.images))

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image, runtime_handler=runtime_handler))
        try:
            response = await self.connection.call("ImageStatus", request, f'get status of image "{image}"')
        except NotFound:
            return None
        return responses.image(response.image) if response.HasField("image") else None

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None = None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        request = cri.PullImageRequest(image=cri.ImageSpec(image=image, runtime_handler=runtime_handler))
        if credentials is not None:
            request.auth.username, request.auth.password = credentials.username, credentials.password
        if sandbox is not None:
            request.image.annotations.update(sandbox.annotations)
            request.sandbox_config.CopyFrom(requests.sandbox_config(sandbox))
        response = await self.connection.call("PullImage", request, f'pull image "{image}"', None)
        return str(response.image_ref)

    async def remove_image(self, image: str) -> None:
        request = cri.RemoveImageRequest(image=cri.ImageSpec(image=image))
        await self.connection.call("RemoveImage", request, f'remove image "{image}"')

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        request = cri.ImageFsInfoRequest()
        response = await self.connection.call("ImageFsInfo", request, "get usage of the image file system")
        return tuple(map(responses.filesystem_usage, response.image_filesystems))

    async def transfers(self) -> Sequence[Transfer] | None:
        """Return the downloads in progress, or ``None`` if the runtime does not implement the call.

        :raises NodeAgentError: the runtime does not respond.
        """
        if not self._reports_progress:
            return None
        request, attempt = content.ListStatusesRequest(), "get the progress of pulls"
        try:
            response = await self.connection.call("ListStatuses", request, attempt, 0, content.NAMESPACE)
        except UnimplementedError:
            self._reports_progress = False
            return None
        return tuple(Transfer(status.ref, status.offset, status.total) for status in response.statuses)
