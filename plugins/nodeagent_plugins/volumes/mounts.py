"""Mounts of volumes, behind a protocol that tests replace, and threads for blocking work."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

from nodeagent.base.mounts import calls
from nodeagent.base.mounts.points import is_mount_point
from nodeagent.base.mounts.table import MOUNTINFO, mounts_below, parse_mounts

P = ParamSpec("P")
T = TypeVar("T")

_FINISH_SECONDS = 10.0


class Mounter(Protocol):
    """Mounts file systems; every call may block and raises :class:`OSError` on failure."""

    def mount(self, kind: str, target: Path, options: str) -> None: ...

    def bind(self, source: Path, target: Path) -> None:
        """Bind-mount *source* at *target*."""
        ...

    def unmount(self, target: Path) -> None:
        """Unmount the topmost mount at *target*; does nothing if there is none."""
        ...

    def mounted(self, target: Path) -> bool: ...

    def below(self, directory: Path) -> list[Path]:
        """Return the mount points at and below *directory*, deepest first."""
        ...


class LinuxMounter:
    """Mounter that uses the system calls of Linux."""

    def mount(self, kind: str, target: Path, options: str) -> None:
        calls.mount(kind, target, kind, options.split(","))

    def bind(self, source: Path, target: Path) -> None:
        calls.bind(source, target)

    def unmount(self, target: Path) -> None:
        calls.unmount(target)

    def mounted(self, target: Path) -> bool:
        return is_mount_point(target)

    def below(self, directory: Path) -> list[Path]:
        return mount_points(MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape"), directory)


def mount_points(mountinfo: str, directory: Path) -> list[Path]:
    """Return the mount points at and below *directory*, deepest first, and the latest first at the same depth."""
    # The kernel lists real paths; the directory may contain a symbolic link.
    prefix = os.path.realpath(directory)
    entries = mounts_below(Path(prefix), parse_mounts(mountinfo, around=prefix))
    return [directory / Path(entry.path).relative_to(prefix) for entry in entries]


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking *work* in a thread; a cancelled caller waits for it within a limit.

    Otherwise the work could still change a volume while another task releases it.
    """
    future = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(_retrieve_error)
        await asyncio.wait({future}, timeout=_FINISH_SECONDS)
        raise


def _retrieve_error(future: asyncio.Future[T]) -> None:
    """Retrieve the error of abandoned work, which asyncio would log otherwise."""
    if not future.cancelled():
        future.exception()
