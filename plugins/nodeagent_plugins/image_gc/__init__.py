"""Image garbage collection: remove unused images at the disk threshold, by age and under disk pressure.

spec: config.imageGCHighThresholdPercent, config.imageGCLowThresholdPercent, config.imageMinimumGCAge,
config.imageMaximumGCAge
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.duration import Duration
from nodeagent.base.release import IMAGE_AGE_FROM_START
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext, ImageContext
from nodeagent.contracts.eviction import Reclaimed
from nodeagent.contracts.images import ImageCollector
from nodeagent_plugins.image_gc.collector import Collector
from nodeagent_plugins.image_gc.loop import ImageGcLoop

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

NAME = "image_gc"
OFF_PERCENT = 100
"""A high threshold of this value disables the periodic collection by disk usage; before 1.30, also the one by age."""


RECLAIM_SECONDS = 7.0
"""Time limit for reclaiming in the hook, whose timeout is 10 s."""


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    plugins.register(ImageGc(context), name=f"{NAME}.node")


@hookimpl
def nodeagent_provide_image_collector(context: ImageContext) -> ImageCollector:
    return Collector(context)


class ImageGc:
    """Collects images on this node periodically and under disk pressure."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._collector = Collector(context, pods=context.pods)

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        if self._context.config.image_gc_high_threshold_percent >= OFF_PERCENT and not self._collects_by_age():
            return []
        return [ImageGcLoop(self._context, self._collector)]

    @hookimpl
    async def nodeagent_reclaim_disk(self, signal: str) -> Reclaimed | None:
        disk = signal.partition(".")[0]
        if disk == "nodefs" and not await self._shares_nodefs():
            return None
        if disk not in ("nodefs", "imagefs"):
            return None
        done = await self._collector.reclaim(RECLAIM_SECONDS)
        removed = [found for found in done.images if found.removal_reason and not found.error]
        names = [(found.image.repo_tags or found.image.repo_digests or (found.image.id,))[0] for found in removed]
        return Reclaimed(sum(found.image.size_bytes for found in removed), names)

    def _collects_by_age(self) -> bool:
        """Return whether images are removed for their age although the collection by disk usage is disabled."""
        context = self._context
        if context.release.release < IMAGE_AGE_FROM_START or not context.gates.enabled("ImageMaximumGCAge"):
            return False
        return context.config.image_maximum_gc_age > Duration()

    async def _shares_nodefs(self) -> bool:
        """Return whether images are on the file system of the agent's root directory."""
        usage = await self._context.images.filesystem_usage()
        return bool(usage) and await asyncio.to_thread(_same_disk, Path(usage[0].mountpoint), self._context.root_dir)


def _same_disk(one: Path, other: Path) -> bool:
    try:
        return one.stat().st_dev == other.stat().st_dev
    except OSError:
        return False
