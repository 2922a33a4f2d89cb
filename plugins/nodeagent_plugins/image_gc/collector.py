"""Image garbage collector."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
from dataclasses import replace
from datetime import datetime

from nodeagent.base import tracing
from nodeagent.base.duration import Duration
from nodeagent.base.metrics import Counter
from nodeagent.base.release import IMAGE_AGE_FROM_START, Release
from nodeagent.base.structs import Struct
from nodeagent.contracts.context import ImageContext
from nodeagent.contracts.image_pins import read_pins
from nodeagent.contracts.images import CollectableImage, ImageCollection
from nodeagent.contracts.pods import PodDirectory
from nodeagent.errors import NodeAgentError
from nodeagent.model.image_name import full_name
from nodeagent_plugins.image_gc import records
from nodeagent_plugins.image_gc.selection import Policy, Record, arrange, bytes_to_free, observe, too_old

_log = logging.getLogger(__name__)

REMOVED = Counter(
    "image_garbage_collected_total",
    "Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
    ("reason",),
)
_AGE, _SPACE = "age", "space"
DEFAULT_SANDBOX_IMAGE = "registry.k8s.io/pause:3.9"


_USAGE_NAMED = Release(1, 35)
"""First release whose event of an insufficient collection contains the disk usage."""
_SIZE_UNITS = ("KiB", "MiB", "GiB", "TiB")


class CollectionFailed(NodeAgentError):
    """A collection failed; ``event`` is the reason of an event in addition to the general one."""

    def __init__(self, message: str, event: str = "") -> None:
        super().__init__(message)
        self.event = event


class Disk(Struct, frozen=True):
    """Capacity and available space of a file system, in bytes."""

    capacity: int
    available: int


def measure(path: str) -> Disk:
    """Return capacity and available space of the file system at *path*. Blocks.

    :raises OSError: the file system cannot be read.
    """
    found = os.statvfs(path)
    return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


class Collector:
    """Implements :class:`~nodeagent.contracts.images.ImageCollector`.

    Never removed are images of containers, including dead ones, images of this node's pods, pinned images, the sandbox
    image, and images observed for less than ``imageMinimumGCAge``.

    :param pods: the pods of this node, if the agent collects; it then stores the ages of images. After its start it
        exempts images until the pods of all sources are known, but at most for ``imageMinimumGCAge``.
    """

    def __init__(self, context: ImageContext, *, pods: PodDirectory | None = None) -> None:
        config = context.config
        self._context, self._pods = context, pods
        self._policy = Policy(
            config.image_gc_high_threshold_percent,
            config.image_gc_low_threshold_percent,
            config.image_minimum_gc_age,
            config.image_maximum_gc_age if context.gates.enabled("ImageMaximumGCAge") else Duration(),
        )
        self._records: dict[str, Record] | None = None
        self._since: datetime | None = context.clock.wall() if pods is not None else None
        self._at_work = asyncio.Lock()

    async def collect(self, *, everything: bool = False, dry_run: bool = False) -> ImageCollection:
        """Remove images by age and disk usage.

        :raises CollectionFailed: too little could be removed, or the removal of an image failed.
        :raises NodeAgentError: the runtime did not respond.
        """
        async with self._at_work:
            with tracing.span("Images/GarbageCollect"):
                return await self._collect(everything, dry_run)

    async def reclaim(self, seconds: float) -> ImageCollection:
        """Remove all images that are not retained, within the time limit.

        :raises NodeAgentError: the runtime did not respond.
        """
        until = self._context.clock.now() + seconds
        async with self._at_work:
            return await self._collect(True, False, until)

    async def _collect(self, everything: bool, dry_run: bool, until: float = math.inf) -> ImageCollection:
        now = self._context.clock.wall()
        left = await self._list_images(now)
        removed = []
        for one in too_old(left, self._policy, now) if not everything and self._ages_count(now) else ():
            removed.append(await self._remove(one, _AGE, dry_run))
        disk = await self._disk()
        if dry_run:
            disk = replace(disk, available=disk.available + sum(one.image.size_bytes for one in removed))
        available = min(disk.available, disk.capacity)
        target = sys.maxsize if everything else bytes_to_free(disk.capacity, available, self._policy)
        if target and not everything and not dry_run:
            _log.info(
                "Disk usage on image filesystem is over the high threshold, "
                "trying to free bytes down to the low threshold",
                extra={
                    "usage": 100 - available * 100 // disk.capacity,
                    "highThreshold": self._policy.high_percent,
                    "amountToFree": target,
                    "lowThreshold": self._policy.low_percent,
                },
            )
        freed, handled = 0, {one.image.id for one in removed}
        reason = (
            "all unused images are removed" if everything else f"disk usage {100 - available * 100 // disk.capacity} %"
        )
        for one in left:
            if freed >= target or self._context.clock.now() >= until:
                break
            if one.image.id in handled or one.retained_reason:
                continue
            done = await self._remove(replace(one, removal_reason=reason), _SPACE, dry_run)
            removed.append(done)
            freed += 0 if done.error else one.image.size_bytes
        fates = {one.image.id: one for one in removed}
        result = ImageCollection(
            [fates.get(one.image.id, one) for one in left],
            disk.capacity,
            available,
            0 if everything else target,
            freed,
        )
        if not dry_run:
            _check(result, everything=everything, release=self._context.release.release)
        return result

    def _ages_count(self, now: datetime) -> bool:
        """Return whether images can be too old; since release 1.30 only once the agent has run for the maximum age."""
        if self._since is None or self._context.release.release < IMAGE_AGE_FROM_START:
            return True
        return Duration.of(seconds=(now - self._since).total_seconds()) >= self._policy.maximum_age

    async def _list_images(self, now: datetime) -> list[CollectableImage]:
        """Return all images of the store, and record their last use."""
        context, root = self._context, self._context.root_dir
        if self._records is None:
            self._records = await asyncio.to_thread(records.load, root)
        images = await context.images.list_images()
        used = await self._used()
        seen = observe(self._records, images, used, now.timestamp())
        if self._pods is not None and seen != self._records:
            await asyncio.to_thread(records.save, root, seen)
        self._records = seen
        sandbox = context.settings.pod_infra_container_image or DEFAULT_SANDBOX_IMAGE
        pinned = {full_name(sandbox), *await asyncio.to_thread(read_pins, root)}
        pods_known = self._pods is None or self._pods.all_sources_ready
        known_since = None if pods_known else self._since
        return arrange(images, seen, used, pinned, now, self._policy, known_since=known_since)

    async def _used(self) -> frozenset[str]:
        """Return names and IDs of the images of containers and of this node's pods."""
        used = set()
        for container in await self._context.runtime.list_containers():
            used |= {container.image, container.image_ref, full_name(container.image)}
        for pod in self._pods.active() if self._pods is not None else ():
            used |= {full_name(container.image) for _, container in pod.containers()}
            used |= {full_name(volume.image.reference) for volume in pod.spec.volumes or () if volume.image is not None}
        return frozenset(used - {""})

    async def _disk(self) -> Disk:
        usage = await self._context.images.filesystem_usage()
        if not usage:
            raise CollectionFailed("the runtime does not report its image filesystem")
        path = usage[0].mountpoint
        try:
            disk = await asyncio.to_thread(measure, path)
        except OSError as error:
            raise CollectionFailed(f"measure the image filesystem at {path}: {error.strerror or error}") from error
        if not disk.capacity:
            raise CollectionFailed("invalid capacity 0 on image filesystem", "InvalidDiskCapacity")
        return disk

    async def _remove(self, one: CollectableImage, cause: str, dry_run: bool) -> CollectableImage:
        if dry_run:
            return one
        try:
            await self._context.images.remove_image(one.image.id)
        except NodeAgentError as error:
            return replace(one, error=str(error))
        if self._records is not None:
            self._records.pop(one.image.id, None)
        REMOVED.inc(cause)
        shown = (one.image.repo_tags or one.image.repo_digests or (one.image.id,))[0]
        _log.info(
            "Removing image to free bytes",
            extra={"imageID": one.image.id, "image": shown, "size": one.image.size_bytes, "reason": one.removal_reason},
        )
        return one


def _check(done: ImageCollection, *, everything: bool, release: Release) -> None:
    failed = [f"{one.image.id}: {one.error}" for one in done.images if one.error]
    if failed and not everything:
        target = f"wanted to free {done.bytes_to_free} bytes, but freed {done.freed_bytes} bytes"  # wording: ok
        raise CollectionFailed(f"{target} with errors in image deletion: {'; '.join(failed)}")
    if done.freed_bytes < done.bytes_to_free:
        raise CollectionFailed(_insufficient(done, release), "FreeDiskSpaceFailed")


def _insufficient(done: ImageCollection, release: Release) -> str:
    """Return the event text for too few unused images."""
    if release < _USAGE_NAMED:
        return (
            "Failed to garbage collect required amount of images. "
            f"Attempted to free {done.bytes_to_free} bytes, but only found {done.freed_bytes} bytes eligible to free."
        )
    usage = 100 - done.available_bytes * 100 // done.capacity_bytes
    return (
        f"Insufficient free disk space on the node's image filesystem ({usage}% of {_size(done.capacity_bytes)} used). "
        f"Failed to free sufficient space by deleting unused images (freed {done.freed_bytes} bytes). "
        "Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
    )


def _size(size_bytes: int) -> str:
    """Return a size with one decimal in the largest binary unit up to TiB."""
    exponent = min(max(size_bytes.bit_length() - 1, 0) // 10, len(_SIZE_UNITS))
    if not exponent:
        return f"{size_bytes} B"
    return f"{size_bytes / 1024**exponent:.1f} {_SIZE_UNITS[exponent - 1]}"
