"""Kubernetes releases: the one that the agent is compatible with, and the reason for its selection. No I/O."""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import field

from nodeagent import __version__
from nodeagent.base.structs import Struct

BUILD = f"nodeagent-{__version__}"
"""Version of this project, as build metadata of reported versions."""
_RELEASE = re.compile(
    r"v?(?P<major>\d{1,3})\.(?P<minor>\d{1,3})(\.\d{1,4})?\+?([-+][0-9A-Za-z.+-]*)?",
    re.ASCII,
)


class Release(Struct, frozen=True, order=True):
    """Minor release, such as 1.36. Ordered."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Release:
        """Return the release of ``1.36``, ``v1.36.2``, ``1.36+`` or ``v1.36.2-vendor.1``.

        :raises ValueError: *text* does not start with a release; the message is a predicate.
        """
        match = _RELEASE.fullmatch(text.strip())
        if match is None:
            raise ValueError("must be a release such as 1.36")
        return cls(int(match["major"]), int(match["minor"]))

    def bounded(self) -> Release:
        """Return this release, or the nearest supported one."""
        return min(max(self, OLDEST), NEWEST)

    @property
    def previous(self) -> Release:
        """The minor release before this one."""
        return Release(self.major, self.minor - 1)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


_PATCHES = {
    Release(1, 29): 15,
    Release(1, 30): 14,
    Release(1, 31): 14,
    Release(1, 32): 10,
    Release(1, 33): 6,
    Release(1, 34): 2,
    Release(1, 35): 0,
    Release(1, 36): 2,
}
"""Patch version that the agent reports for each supported release, unless that of the API server is known."""

SWAP_REVISED = Release(1, 30)
"""First release in which containers have no swap by default, no ``UnlimitedSwap``, and ``LimitedSwap`` is in addition
to the memory limit; volumes in memory are not swapped."""
IMAGE_AGE_FROM_START = Release(1, 30)
"""First release that removes no image for its age before the agent has run for ``imageMaximumGCAge``, and removes
images for their age also if the collection by disk usage is disabled."""
MEMORY_RESERVATION_CONFIGURABLE = Release(1, 36)
"""First release in which MemoryQoS protects requested memory from reclaim only with ``memoryReservationPolicy``."""
EVICTION_REVISED = Release(1, 32)
"""First release in which ``evictionMaxPodGracePeriod`` limits the grace period of a pod instead of replacing it, and in
which eviction messages include init containers and sidecars."""
CGROUP_V1_DEPRECATED = Release(1, 31)
"""First release that warns about cgroup v1."""
CGROUP_V1_REJECTED = Release(1, 35)
"""First release that does not start on cgroup v1 by default."""

OLDEST = min(_PATCHES)
NEWEST = max(_PATCHES)


class ReleaseOrigin(StrEnum):
    """Reason for the selection of a release; the value is the text for logs and listings."""

    FLAG = "--compatibility-version"
    API_SERVER = "API server"
    REMEMBERED = "last known API server"
    ASSUMED = "default until the API server responds"
    STANDALONE = "default without API server"


class SelectedRelease(Struct, frozen=True):
    """Release that determines feature gates, defaults and the reported version; constant while the agent runs."""

    release: Release = field(default_factory=lambda: OLDEST)
    origin: ReleaseOrigin = ReleaseOrigin.STANDALONE
    server_version: str = ""
    """Version of the API server, such as ``v1.36.2``; empty if unknown."""

    @property
    def assumed(self) -> bool:
        """True if the release is a guess, because the API server has never responded."""
        return self.origin is ReleaseOrigin.ASSUMED

    @property
    def patch_version(self) -> str:
        """Version with patch number, such as ``v1.36.2``: that of the API server, or a known one of the release."""
        match = re.match(r"v?(\d+\.\d+\.\d+)", self.server_version, re.ASCII)
        if match and Release.parse(match[1]) == self.release:
            return f"v{match[1]}"
        return f"v{self.release}.{_PATCHES[self.release]}"

    @property
    def node_version(self) -> str:
        """Version that the node reports: that of the release, with the version of the agent as build metadata."""
        return f"{self.patch_version}+{BUILD}"

    def __str__(self) -> str:
        return f"{self.release} ({self.origin})"
