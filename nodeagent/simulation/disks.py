"""Simulated space of the disks of a node, which images, containers and other files use up."""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.contracts.stats import FilesystemStats
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.simulation.image_store import ImageStore, NoSpace
from nodeagent.simulation.runtime import SimulatedRuntime
from nodeagent.simulation.runtime_objects import Container

NODEFS, IMAGEFS = Signal.NODEFS, Signal.IMAGEFS
GIB, MIB = 1 << 30, 1 << 20
CAPACITY_BYTES = 100 * GIB
LEAST_PERCENT = 10
"""Available share of a disk below which pods are evicted."""
HIGH_PERCENT, LOW_PERCENT = 85, 80
"""Used share from which images are removed, and down to which."""
EVICTION_THRESHOLDS = {str(signal): f"{LEAST_PERCENT}%" for signal in (NODEFS, IMAGEFS)}
SEPARATE_MOUNT_POINT = "/proc"
"""Mount point of the images; on each host, its file system is not that of the root directory."""
_SYSTEM_BYTES = 10 * GIB
_BLOCK_BYTES = 4096
_INODES = 1_000_000
_IMAGE_GIB = (1, 2, 3, 4)
_LAYER_MIB = _LOG_MIB = (1, 20, 100, 300)


@dataclass(eq=False, slots=True)
class _Disk:
    other: int = 0
    """Bytes in files of neither images nor containers."""


class SimulatedDisks(ImageStore):
    """Disk of the root directory, and for half of the seeds a separate disk of images and writable layers.

    The sizes of an image and of the files of a container depend only on their names and the seed.

    :ivar released_at: time at which others than the agent last removed files or images.
    """

    def __init__(self, seed: object, runtime: SimulatedRuntime, clock: SimulatedClock, root: Path) -> None:
        self._seed, self._runtime, self._clock, self._root = seed, runtime, clock, root
        self.released_at = float("-inf")
        self._sizes: dict[str, int] = {}
        self._node = _Disk(_SYSTEM_BYTES)
        separate = random.Random(f"{seed}/disks").random() < 0.5
        self._images = _Disk(_SYSTEM_BYTES) if separate else self._node
        self.mount_point = SEPARATE_MOUNT_POINT if separate else str(root)
        runtime.image_store = self

    @property
    def are_separate(self) -> bool:
        """True if images are not on the disk of the root directory."""
        return self._images is not self._node

    def available(self, signal: str) -> int:
        """Return the available bytes of a disk."""
        return max(0, CAPACITY_BYTES - self._used(self._disk(signal)))

    def layer(self, container: Container) -> int:
        """Return the bytes of the writable layer of a container."""
        return self._drawn("layer", f"{container.sandbox.uid}/{container.name}", _LAYER_MIB) * MIB

    def logs(self, container: Container) -> int:
        """Return the bytes of the logs of a container."""
        return self._drawn("logs", f"{container.sandbox.uid}/{container.name}", _LOG_MIB) * MIB

    def leave(self, signal: str, percent: int) -> None:
        """Write other files until at most *percent* of a disk remain."""
        excess = self.available(signal) - CAPACITY_BYTES * percent // 100
        self._disk(signal).other += max(0, excess)

    def recover(self) -> None:
        """Remove the other files."""
        self._node.other = self._images.other = _SYSTEM_BYTES
        self.released_at = self._clock.now()

    def remove_images(self, names: Collection[str]) -> None:
        """Remove images, as an operator does."""
        for name in names:
            del self._runtime.images[name]
        self.released_at = self._clock.now()

    def forget(self) -> None:
        """Drop the sizes, which can be determined again."""
        self._sizes.clear()

    def filesystem(self, signal: str, now: int) -> FilesystemStats:
        """Return the statistics of a disk; *now* in epoch nanoseconds."""
        available = self.available(signal)
        used = CAPACITY_BYTES - available
        return FilesystemStats(now, available, CAPACITY_BYTES, used, _INODES, _INODES, 0)

    # --- image store ------------------------------------------------------------------------------------------

    def size(self, name: str) -> int:
        return self._drawn("image", name, _IMAGE_GIB) * GIB

    def reserve(self, name: str) -> None:
        if self.size(name) > self.available(IMAGEFS):
            raise NoSpace

    # --- file systems -----------------------------------------------------------------------------------------

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        measure = os.statvfs
        signals = {str(self._root): NODEFS, self.mount_point: IMAGEFS if self.are_separate else NODEFS}

        def measure_simulated(path: Any) -> Any:
            signal = None if isinstance(path, int) else signals.get(os.fspath(path))
            return measure(path) if signal is None else self._status(signal)

        return [(os, "statvfs", measure_simulated)]

    def _status(self, signal: str) -> Any:
        blocks, free = CAPACITY_BYTES // _BLOCK_BYTES, self.available(signal) // _BLOCK_BYTES
        sizes = {"f_frsize": _BLOCK_BYTES, "f_bsize": _BLOCK_BYTES, "f_blocks": blocks}
        return SimpleNamespace(**sizes, f_bavail=free, f_bfree=free, f_files=_INODES, f_ffree=_INODES, f_favail=_INODES)

    def _disk(self, signal: str) -> _Disk:
        return self._node if signal == NODEFS else self._images

    def _used(self, disk: _Disk) -> int:
        used = disk.other
        containers = self._runtime.containers.values()
        if disk is self._node:
            used += sum(map(self.logs, containers))
        if disk is self._images:
            used += sum(map(self.layer, containers)) + sum(map(self.size, self._runtime.images))
        return used

    def _drawn(self, kind: str, name: str, choices: tuple[int, ...]) -> int:
        key = f"{kind}/{name}"
        if key not in self._sizes:
            self._sizes[key] = random.Random(f"{self._seed}/{key}").choice(choices)
        return self._sizes[key]
