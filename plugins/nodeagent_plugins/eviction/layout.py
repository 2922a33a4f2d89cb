"""Detection of the file systems of images and writable layers."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.stats import NodeUsage
from nodeagent_plugins.eviction.signals import Layout

SPLIT_GATE = "NodeAgentSeparateDiskGC"

_log = logging.getLogger(__name__)


async def detect_layout(context: AgentContext, node: NodeUsage) -> Layout:
    """Compare the runtime's image file system with that of the root directory.

    Separate file systems for images and layers require the feature gate; without it they count as one.

    :raises RuntimeFailure: the runtime did not respond.
    """
    mounts = [usage.mountpoint for usage in await context.images.filesystem_usage() if usage.mountpoint]
    apart = await asyncio.to_thread(_any_apart, str(context.root_dir), mounts)
    if not apart:
        return Layout.SINGLE
    if node.container_filesystem is not None:
        if context.gates.enabled(SPLIT_GATE):
            return Layout.SPLIT
        _log.warning(
            "Split image file system requires the feature gate, ignoring the split", extra={"gate": SPLIT_GATE}
        )
    return Layout.DEDICATED


async def image_disk(context: AgentContext) -> Path | None:
    """Return the mount point of the runtime's image file system, if reported.

    :raises RuntimeFailure: the runtime did not respond.
    """
    usage = await context.images.filesystem_usage()
    return Path(usage[0].mountpoint) if usage and usage[0].mountpoint else None


def _any_apart(root: str, mounts: Sequence[str]) -> bool:
    here = _device(root)
    return any(device not in (None, here) for device in map(_device, mounts))


def _device(path: str) -> int | None:
    try:
        return os.stat(path).st_dev  # noqa: PTH116
    except OSError:
        return None
