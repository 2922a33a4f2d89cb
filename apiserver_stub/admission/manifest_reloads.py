"""Results of reading the admission manifests of plugins, for metrics."""

from __future__ import annotations

import time
from collections import Counter

SUCCESS, FAILURE = "success", "failure"


class ManifestReloads:
    """Results by plugin; the first load of a plugin counts too."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        """Number of reloads by result and plugin."""
        self.last_at: dict[tuple[str, str], float] = {}
        """Time of the last reload by result and plugin, in seconds since the epoch."""
        self.digests: dict[str, str] = {}
        """SHA-256 hash of the files in effect by plugin."""

    def succeeded(self, plugin: str, digest: str) -> None:
        """Count a reload of *plugin* whose files have the hash *digest*."""
        self._count(SUCCESS, plugin)
        self.digests[plugin] = digest

    def failed(self, plugin: str) -> None:
        """Count a reload of *plugin* that failed."""
        self._count(FAILURE, plugin)

    def _count(self, result: str, plugin: str) -> None:
        self.counts[result, plugin] += 1
        self.last_at[result, plugin] = time.time()
