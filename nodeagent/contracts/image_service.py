"""Contract of the container runtime's image store.

Errors are those of :mod:`nodeagent.contracts.runtime`. spec: config.imageServiceEndpoint
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime_config import SandboxConfig


class Image(Struct, frozen=True):
    """An image in the runtime's store."""

    id: str
    repo_tags: Sequence[str] = ()
    repo_digests: Sequence[str] = ()
    size_bytes: int = 0
    uid: int | None = None
    username: str = ""
    pinned: bool = False

    @property
    def names(self) -> frozenset[str]:
        """All names of the image: ID, bare digest, tags, repositories with digest."""
        return frozenset((self.id, self.id.removeprefix("sha256:"), *self.repo_tags, *self.repo_digests))


class OwnerKind(StrEnum):
    """Kind of an API object that credentials belong to."""

    SECRET = "Secret"  # noqa: S105
    SERVICE_ACCOUNT = "ServiceAccount"


@dataclass(frozen=True, slots=True)
class CredentialOwner:
    """API object that credentials belong to; only pods that use it may use images that were pulled with them."""

    kind: OwnerKind
    namespace: str
    name: str
    uid: str
    digest: str = field(repr=False, default="")
    """SHA-256 digest of the credentials, in hexadecimal digits; empty for service accounts."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a registry; never displayed."""

    username: str = field(repr=False, default="")
    password: str = field(repr=False, default="")
    source: str = ""
    """Origin: the name of a pull secret or plugin."""
    owner: CredentialOwner | None = field(repr=False, compare=False, default=None)
    """API object that they belong to; ``None`` for credentials of the node, which all its pods may use."""


class FilesystemUsage(Struct, frozen=True):
    """Usage of an image file system; the timestamp is in epoch nanoseconds."""

    mountpoint: str
    used_bytes: int
    inodes_used: int
    timestamp: int = 0


class ImageService(Protocol):
    """The runtime's image store."""

    async def list_images(self) -> Sequence[Image]:
        """Return all images in the store.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def image_status(self, image: str, *, runtime_handler: str = "") -> Image | None:
        """Return the image, or ``None`` if it is not in the store.

        :param image: name or ID of the image.
        :param runtime_handler: look for the image of this handler, if the runtime distinguishes them.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def pull_image(
        self,
        image: str,
        credentials: Credentials | None = None,
        sandbox: SandboxConfig | None = None,
        *,
        runtime_handler: str = "",
    ) -> str:
        """Pull *image* and return its reference in the store; the call has no deadline.

        :param image: name of the image, with tag or digest.
        :param credentials: credentials of the registry; ``None`` pulls anonymously.
        :param sandbox: the sandbox for which to pull, if the runtime distinguishes them.
        :param runtime_handler: pull for this handler, if the runtime distinguishes them.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def remove_image(self, image: str) -> None:
        """Remove an image with all its names; unknown images are ignored.

        :param image: name or ID of the image.
        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        """Return the usage of the image file systems.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...


class Transfer(Struct, frozen=True):
    """A layer or other blob of an image that is being downloaded."""

    ref: str
    """Identifier, such as the digest of a layer."""
    received_bytes: int
    total_bytes: int
    """0 if unknown."""


@runtime_checkable
class ProgressReportingImageService(ImageService, Protocol):
    """An image service that also reports the progress of pulls."""

    async def transfers(self) -> Sequence[Transfer] | None:
        """Return the transfers in progress of all pulls; ``None`` if the runtime does not report them.

        :raises RuntimeUnavailable: the runtime cannot be reached, or did not respond in time.
        :raises RuntimeFailure: the runtime returned an error.
        """
        ...
