"""Getting an image onto the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

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


@dataclass(frozen=True, slots=True)
class PullInProgress:
    """An image that is on its way for at least one container."""

    image: str
    since: float
    """Monotonic time at which it was asked for."""
    queued: bool
    """Whether other pulls go first."""
    pods: tuple[str, ...] = ()
    """Full names of the pods that wait for it."""
    resolving_credentials: bool = False
    """Whether pull secrets and credential providers are asked still, and nothing is pulled yet."""


@runtime_checkable
class ProgressReportingImagePuller(Protocol):
    """An image puller that also tells what it is at."""

    def pulls(self) -> Sequence[PullInProgress]:
        """Return the pulls under way, the oldest first."""
        ...

    def backoff_seconds_left(self, pod: Pod, container: Container) -> float:
        """Return how long the back-off after failed pulls goes on; 0 where there is none."""
        ...


class CredentialProvider(Protocol):
    """Knows credentials of registries."""

    async def credentials(self, image: str) -> Sequence[Credentials]:
        """Return what may open *image*'s registry, best first; empty when it knows none. Must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class CredentialLookup:
    """What one source of credentials was asked about an image, and what came of it."""

    source: str
    """Its name; pods' events and logs show it."""
    patterns: tuple[str, ...] = ()
    """Those of its patterns that match the image; without any it was not asked."""
    command: tuple[str, ...] = ()
    """The program that was asked, with its arguments; empty where there is none."""
    request: str = ""
    """What it was asked, as it was sent."""
    auth: Mapping[str, Credentials] = field(default_factory=dict)
    """What it answered: credentials by the registry or repository they are for."""
    caching: str = ""
    """For whom and how long the answer is kept, for people."""
    failure: str = ""
    """Why there is no answer, as a sentence part without secrets; empty when there is one."""
    detail: str = ""
    """What it said about its failure. May hold anything: for the node's operator alone, never for events."""
    seconds: float = 0.0
    """How long it took; 0 for an answer that was kept."""


@dataclass(frozen=True, slots=True)
class CredentialLookupResult:
    """Credentials with the story of how they were found."""

    credentials: tuple[Credentials, ...] = ()
    """What may open the image's registry, best first."""
    lookups: tuple[CredentialLookup, ...] = ()
    """One a source, in the order of their precedence."""


@runtime_checkable
class DiagnosableCredentialProvider(CredentialProvider, Protocol):
    """A credential provider that also tells whom it asked, so that a pod's event can name a source that failed."""

    async def lookup(self, image: str) -> CredentialLookupResult:
        """Return the same credentials as :meth:`credentials`, with every inquiry. Must not raise."""
        ...


@dataclass(frozen=True, slots=True)
class CollectableImage:
    """An image of the store as the collection of unused images sees it."""

    image: Image
    first_seen: datetime
    last_used: datetime | None = None
    """When a container was last seen to use it; ``None`` when none was."""
    retained_reason: str = ""
    """Why it has to stay (``in use``, ``pinned``, …); empty when it may go."""
    removal_reason: str = ""
    """Why it goes, or would go now; empty when it stays."""
    error: str = ""
    """Why it could not be removed."""


@dataclass(frozen=True, slots=True)
class ImageCollection:
    """What a collection of unused images did, or would do."""

    images: Sequence[CollectableImage]
    """Every image, in the order in which they go."""
    capacity_bytes: int
    """Size of the file system of images."""
    available_bytes: int
    """What was free on it before space was made, and after too old images went."""
    wanted_bytes: int = 0
    """How much was to be freed."""
    freed_bytes: int = 0
    """Sizes of the images that went for it; layers that others share are counted as well."""

    @property
    def used_percent(self) -> int:
        """How full the file system was, in percent."""
        return 100 - self.available_bytes * 100 // self.capacity_bytes if self.capacity_bytes else 100


class ImageCollector(Protocol):
    """Removes images that nobody uses."""

    async def collect(self, *, everything: bool = False, dry_run: bool = False) -> ImageCollection:
        """Remove images as age and disk ask for it.

        :param everything: remove every image that may go, whatever the disk has free.
        :param dry_run: only tell what would be done.
        :raises NodeAgentError: the runtime or the disk did not answer.
        """
        ...
