"""Looks at the image store and the disk below it, and removes what has to go."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
from dataclasses import dataclass, replace
from datetime import datetime

from nodeagent.base import tracing
from nodeagent.base.metrics import Counter
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.image_pins import read_pins
from nodeagent.contracts.images import CollectableImage, ImageCollection
from nodeagent.errors import NodeAgentError
from nodeagent.model.image_name import full_name
from nodeagent_plugins.image_gc import records
from nodeagent_plugins.image_gc.selection import Policy, Record, arrange, bytes_to_free, observe, too_old

_log = logging.getLogger(__name__)

REMOVED = Counter("image_garbage_collected_total", "Images that were removed because nobody used them.")
DEFAULT_SANDBOX_IMAGE = "registry.k8s.io/pause:3.9"


class CollectionFailed(NodeAgentError):
    """A collection did not reach its end; ``event`` is the event that tells of it, beside the general one."""

    def __init__(self, message: str, event: str = "") -> None:
        super().__init__(message)
        self.event = event


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system, in bytes."""

    capacity: int
    available: int


def measure(path: str) -> Disk:
    """Return size and free space of the file system at *path*. Blocks.

    :raises OSError: it cannot be looked at.
    """
    found = os.statvfs(path)
    return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


class Collector:
    """Keeps the contract of :class:`~nodeagent.contracts.images.ImageCollector`.

    Never removed are: images that a container uses, dead ones included, or that a pod of this node names; pinned
    images; the sandbox image; images seen for less than ``imageMinimumGCAge``.

    :param serves_node: the agent itself collects: it knows pods, remembers ages, and spares what it has not seen
        since its start for ``imageMinimumGCAge``.
    """

    def __init__(self, context: AgentContext, *, serves_node: bool = False) -> None:
        config = context.config
        self._context, self._serves_node = context, serves_node
        self._policy = Policy(
            config.image_gc_high_threshold_percent,
            config.image_gc_low_threshold_percent,
            config.image_minimum_gc_age,
            config.image_maximum_gc_age,
        )
        self._records: dict[str, Record] | None = None
        self._since: datetime | None = context.clock.wall() if serves_node else None
        self._at_work = asyncio.Lock()

    async def collect(self, *, everything: bool = False, dry_run: bool = False) -> ImageCollection:
        """Remove images as age and disk ask for it.

        :raises CollectionFailed: not enough could be removed, or some image not at all.
        :raises NodeAgentError: the runtime did not answer.
        """
        async with self._at_work:
            with tracing.span("Images/GarbageCollect"):
                return await self._collect(everything, dry_run)

    async def reclaim(self, seconds: float) -> ImageCollection:
        """Remove everything that may go, as far as *seconds* suffice.

        :raises NodeAgentError: the runtime did not answer.
        """
        until = self._context.clock.now() + seconds
        async with self._at_work:
            return await self._collect(True, False, until)

    async def _collect(self, everything: bool, dry_run: bool, until: float = math.inf) -> ImageCollection:
        now = self._context.clock.wall()
        left = await self._look(now)
        gone = []
        for one in too_old(left, self._policy, now) if not everything else ():
            gone.append(await self._remove(one, dry_run))
        disk = await self._disk()
        if dry_run:
            disk = replace(disk, available=disk.available + sum(one.image.size_bytes for one in gone))
        available = min(disk.available, disk.capacity)
        wanted = sys.maxsize if everything else bytes_to_free(disk.capacity, available, self._policy)
        freed, handled = 0, {one.image.id for one in gone}
        why = "everything unused goes" if everything else f"the disk is {100 - available * 100 // disk.capacity} % full"
        for one in left:
            if freed >= wanted or self._context.clock.now() >= until:
                break
            if one.image.id in handled or one.retained_reason:
                continue
            done = await self._remove(replace(one, removal_reason=why), dry_run)
            gone.append(done)
            freed += 0 if done.error else one.image.size_bytes
        fates = {one.image.id: one for one in gone}
        result = ImageCollection(
            [fates.get(one.image.id, one) for one in left],
            disk.capacity,
            available,
            0 if everything else wanted,
            freed,
        )
        if not dry_run:
            _check(result, everything=everything)
        return result

    async def _look(self, now: datetime) -> list[CollectableImage]:
        """Return every image of the store; remembers when it was used."""
        context, root = self._context, self._context.root_dir
        if self._records is None:
            self._records = await asyncio.to_thread(records.load, root)
        images = await context.images.list_images()
        used = await self._used()
        seen = observe(self._records, images, used, now.timestamp())
        if self._serves_node and seen != self._records:
            await asyncio.to_thread(records.save, root, seen)
        self._records = seen
        sandbox = context.settings.pod_infra_container_image or DEFAULT_SANDBOX_IMAGE
        pinned = {full_name(sandbox), *await asyncio.to_thread(read_pins, root)}
        return arrange(images, seen, used, pinned, now, self._policy, known_since=self._since)

    async def _used(self) -> frozenset[str]:
        """Return names and ids of the images that containers use or pods of this node want."""
        used = set()
        for container in await self._context.runtime.list_containers():
            used |= {container.image, container.image_ref, full_name(container.image)}
        for pod in self._context.pods.active() if self._serves_node else ():
            used |= {full_name(container.image) for _, container in pod.containers()}
        return frozenset(used - {""})

    async def _disk(self) -> Disk:
        usage = await self._context.images.filesystem_usage()
        if not usage:
            raise CollectionFailed("the runtime does not tell where its images are")
        path = usage[0].mountpoint
        try:
            disk = await asyncio.to_thread(measure, path)
        except OSError as error:
            raise CollectionFailed(f"measure the image filesystem at {path}: {error.strerror or error}") from error
        if not disk.capacity:
            raise CollectionFailed("invalid capacity 0 on image filesystem", "InvalidDiskCapacity")
        return disk

    async def _remove(self, one: CollectableImage, dry_run: bool) -> CollectableImage:
        if dry_run:
            return one
        try:
            await self._context.images.remove_image(one.image.id)
        except NodeAgentError as error:
            return replace(one, error=str(error))
        if self._records is not None:
            self._records.pop(one.image.id, None)
        REMOVED.inc()
        shown = (one.image.repo_tags or one.image.repo_digests or (one.image.id,))[0]
        _log.info("Image removed", extra={"image": shown, "bytes": one.image.size_bytes, "reason": one.removal_reason})
        return one


def _check(done: ImageCollection, *, everything: bool) -> None:
    failed = [f"{one.image.id}: {one.error}" for one in done.images if one.error]
    if failed and not everything:
        wanted = f"wanted to free {done.bytes_to_free} bytes, but freed {done.freed_bytes} bytes"
        raise CollectionFailed(f"{wanted} with errors in image deletion: {'; '.join(failed)}")
    if done.freed_bytes < done.bytes_to_free:
        raise CollectionFailed(
            "Failed to garbage collect required amount of images. "
            f"Attempted to free {done.bytes_to_free} bytes, but only found {done.freed_bytes} bytes eligible to free.",
            "FreeDiskSpaceFailed",
        )
