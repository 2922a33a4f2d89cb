"""Mount option that prevents the kernel from swapping volumes in memory to disk."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent.base.release import SWAP_REVISED
from nodeagent.base.swap import swap_areas
from nodeagent.contracts.events import EventType
from nodeagent_plugins.volumes.mounts import Mounter

if TYPE_CHECKING:
    from nodeagent.contracts.context import CgroupsContext

NOSWAP = "noswap"
_REASON = "PossibleMemoryBackedVolumesOnDisk"
_WARNING = (
    "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped "
    "to disk and should no longer be considered secure."
)
_log = logging.getLogger(__name__)


def tmpfs_option(context: CgroupsContext, mounter: Mounter, areas: Callable[[], Sequence[str]] = swap_areas) -> str:
    """Return the option for new tmpfs volumes, empty on a host without swap; warn if the kernel does not support it.

    Earlier releases never use it.
    """
    if context.release.release < SWAP_REVISED or not areas():
        return ""
    problem = _problem(context.root_dir, mounter)
    if problem is None:
        return NOSWAP
    _log.warning("Failed to mount tmpfs with the noswap option", extra={"err": str(problem)})
    context.recorder.record(context.node_reference(), EventType.WARNING, _REASON, _WARNING)
    return ""


def _problem(directory: Path, mounter: Mounter) -> OSError | None:
    """Return the error of a test mount: the option requires Linux 6.4 or a backport, outside of a user namespace."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="noswap-test-", dir=directory) as name:
            mounter.mount("tmpfs", Path(name), NOSWAP)
            mounter.unmount(Path(name))
    except OSError as error:
        return error
    return None
