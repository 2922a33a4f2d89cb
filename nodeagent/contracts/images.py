"""Contracts for images: pulling, credentials and garbage collection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import Credentials, Image, SandboxConfig
from nodeagent.model.pod import Container, ContainerKind, ImageVolume, Pod


class PulledImage(Struct, frozen=True):
    """An image that is present in the runtime's store."""

    ref: str
    """Image reference to create the container from."""
    image: Image


class ImagePuller(Protocol):
    """Ensures that an image is present, according to its pull policy."""

    async def ensure(
        self, pod: Pod, kind: ContainerKind, container: Container, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        """Return the image; pull it first if the policy requires it.

        :param pod: the pod, whose pull secrets are used.
        :param kind: the kind of container.
        :param container: the container of the pod spec.
        :param sandbox: the sandbox for which to pull, if the runtime distinguishes them.
        :raises ImageError: with the waiting reason (``ErrImagePull``, ``ImagePullBackOff``, ``ErrImageNeverPull``,
            ``InvalidImageName``, ``ImageInspectError``).
        """
        ...

    async def ensure_volume_image(
        self, pod: Pod, volume: ImageVolume, sandbox: SandboxConfig | None = None
    ) -> PulledImage:
        """Return the image of a volume; pull it first if the policy requires it.

        :param pod: the pod, whose pull secrets are used.
        :param volume: the volume's source in the pod spec.
        :param sandbox: the sandbox for which to pull, if the runtime distinguishes them.
        :raises ImageError: with the waiting reason of containers that mount the volume.
        """
        ...


class PullInProgress(Struct, frozen=True):
    """An image pull that at least one container waits for."""

    image: str
    since: float
    """Monotonic time of the request."""
    queued: bool
    """True if the pull waits for other pulls."""
    pods: tuple[str, ...] = ()
    """Full names of the pods that wait for the image."""
    resolving_credentials: bool = False
    """True if the pull has not started because pull secrets and credential providers are still being queried."""


@runtime_checkable
class ProgressReportingImagePuller(Protocol):
    """An image puller that also reports its progress."""

    def pulls(self) -> Sequence[PullInProgress]:
        """Return the pulls in progress, oldest first."""
        ...

    def backoff_seconds_left(self, pod: Pod, container: Container) -> float:
        """Return the remaining back-off after failed pulls in seconds; 0 if there is none.

        :param pod: the pod.
        :param container: the container of the pod spec.
        """
        ...


class CredentialProvider(Protocol):
    """Provides credentials of image registries."""

    async def credentials(self, image: str, pod: Pod | None = None) -> Sequence[Credentials]:
        """Return credentials for *image*'s registry, most specific first; may be empty. Must not raise.

        :param image: the repository of the image, with registry, without tag and digest.
        :param pod: the pod that uses the image; ``None`` for a pull by a command.
        """
        ...


class CredentialLookup(Struct, frozen=True):
    """A lookup of credentials for an image in one source, and its result."""

    source: str
    """Name of the source, as it appears in events and logs."""
    patterns: tuple[str, ...] = ()
    """The source's patterns that match the image; if there are none, it was not queried."""
    command: tuple[str, ...] = ()
    """The executable with its arguments; empty if the source has none."""
    request: str = ""
    """The request, with a masked token."""
    auth: Mapping[str, Credentials] = field(default_factory=dict)
    """The returned credentials, by registry or repository."""
    caching: str = ""
    """Scope and duration of caching, for display."""
    failure: str = ""
    """Error message without secrets; empty on success."""
    detail: str = ""
    """The source's own error output. May contain secrets: only for the node's administrator, never for events."""
    seconds: float = 0.0
    """Duration of the lookup; 0 for a cached result."""
    skipped: str = ""
    """Reason why the source was not queried although a pattern matches: the pod does not use it."""


class CredentialLookupResult(Struct, frozen=True):
    """Credentials together with the lookups that returned them."""

    credentials: tuple[Credentials, ...] = ()
    """Credentials for the image's registry, most specific first."""
    lookups: tuple[CredentialLookup, ...] = ()
    """One per source, in order of precedence."""


@runtime_checkable
class DiagnosableCredentialProvider(CredentialProvider, Protocol):
    """A credential provider that also reports its lookups, so that a pod's event can name a source that failed."""

    async def lookup(self, image: str, pod: Pod | None = None) -> CredentialLookupResult:
        """Return the same credentials as :meth:`credentials`, with every lookup. Must not raise.

        :param image: the repository of the image, with registry, without tag and digest.
        :param pod: the pod that uses the image; ``None`` for a pull by a command.
        """
        ...


class CollectableImage(Struct, frozen=True):
    """An image of the store as seen by image garbage collection."""

    image: Image
    first_seen: datetime
    last_used: datetime | None = None
    """Last time a container was observed to use it; ``None`` if none was."""
    retained_reason: str = ""
    """Reason to retain it (``in use``, ``pinned``, …); empty if it may be removed."""
    removal_reason: str = ""
    """Reason why it is, or would be, removed; empty if it is retained."""
    error: str = ""
    """Error of a failed removal."""


class ImageCollection(Struct, frozen=True):
    """Result of an image garbage collection, or of a dry run."""

    images: Sequence[CollectableImage]
    """Every image, in order of removal."""
    capacity_bytes: int
    """Capacity of the image file system."""
    available_bytes: int
    """Available bytes after images above the maximum age were removed, before space was reclaimed."""
    bytes_to_free: int = 0
    """Number of bytes to reclaim."""
    freed_bytes: int = 0
    """Total size of the images removed to reclaim space, including layers that are shared with other images."""

    @property
    def used_percent(self) -> int:
        """Usage of the file system, in percent."""
        return 100 - self.available_bytes * 100 // self.capacity_bytes if self.capacity_bytes else 100


class ImageCollector(Protocol):
    """Removes unused images."""

    async def collect(self, *, everything: bool = False, dry_run: bool = False) -> ImageCollection:
        """Remove images that exceed the maximum age, and further ones while disk usage is too high.

        :param everything: remove every unused image, regardless of disk usage.
        :param dry_run: only return the images that would be removed.
        :raises NodeAgentError: the runtime did not respond, or disk usage is unavailable.
        """
        ...
