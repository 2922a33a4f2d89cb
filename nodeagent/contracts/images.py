"""Getting an image onto the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nodeagent.contracts.runtime import Credentials, Image, SandboxConfig
from nodeagent.model.pod import Container, ContainerKind, Pod


@dataclass(frozen=True, slots=True)
class PulledImage:
    """An image that is in the runtime's store."""

    ref: str
    """What to create the container from."""
    image: Image


class ImagePuller(Protocol):
    """Makes sure that a container's image is there, by its pull policy."""

    async def ensure(
        self, pod: Pod, kind: ContainerKind, container: Container, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        """Return the image, pulling it first where the policy asks for it.

        :raises ImageError: with the waiting reason (``ErrImagePull``, ``ImagePullBackOff``, ``ErrImageNeverPull``,
            ``InvalidImageName``, ``ImageInspectError``).
        """
        ...


class CredentialProvider(Protocol):
    """Knows credentials of registries."""

    async def credentials(self, image: str) -> Sequence[Credentials]:
        """Return what may open *image*'s registry, best first; empty when it knows none. Must not raise."""
        ...
