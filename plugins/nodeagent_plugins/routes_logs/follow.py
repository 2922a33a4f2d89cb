"""Reader of a log file from an offset to its end, optionally following it across rotation."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent_plugins.routes_logs.rotated import RotatedLogs, RotationCheck
from nodeagent_plugins.routes_logs.watch import Watches

BLOCK_BYTES = 56 * 1024
"""Below the size for which the allocator requests memory from the kernel (see nodeagent.base.malloc)."""
CHECK_SECONDS = 1.0
SETTLE_SECONDS = 0.25
"""Time for a runtime to flush its buffers to the old file after a rotation."""

T = TypeVar("T", int, RotationCheck)

Open = Callable[[], int]
"""Opens the current file and returns its descriptor; raises ``OSError`` while it is missing."""


async def read_file(
    open_file: Open,
    directory: str,
    watches: Watches,
    clock: Clock,
    *,
    tail_lines: int | None = None,
    more_expected: Callable[[], bool] | None = None,
    rotated: RotatedLogs | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file.

    :param directory: directory of the file, watched while following.
    :param tail_lines: start this many lines before the end.
    :param goes_on: when following: return whether more output is possible. A renamed file is read to its end, then its
     successor from the start; a truncated file is read again from the start.
    :param rotated: when following: finder of the files that were rotated between two checks, which are read as well.
    :raises OSError: the file cannot be opened.
    """
    try:
        descriptor = await opened(open_file)
    except FileNotFoundError:  # Possibly rotated just now, and not recreated yet.
        await clock.sleep(SETTLE_SECONDS)
        descriptor = await opened(open_file)
    try:
        offset = 0 if tail_lines is None else await asyncio.to_thread(tail_offset, descriptor, tail_lines)
        if more_expected is None:
            while block := await _read(descriptor, offset):
                offset += len(block)
                yield block
            return
        async with watches.watching(directory) as changes:
            older: frozenset[str] | None = None
            while True:
                changes.clear()
                more = more_expected()
                # Before the read, because a slow read can miss several rotations.
                check = (
                    partial(rotated.check, descriptor, older)
                    if rotated
                    else partial(_check_replaced, open_file, descriptor)
                )
                seen = await opened(check)
                try:
                    quiet = not more
                    while True:
                        begin = offset
                        while block := await _read(descriptor, offset):
                            offset += len(block)
                            yield block
                        if seen.successor is None or (quiet and offset == begin):
                            break
                        await clock.sleep(SETTLE_SECONDS)
                        quiet = True
                    for name in seen.missed:
                        async for block in _complete_lines(rotated, name):
                            yield block
                except BaseException:
                    _close(seen)
                    raise
                if seen.successor is not None:
                    os.close(descriptor)
                    descriptor, offset, older = seen.successor, 0, None
                    continue
                older = seen.older
                if os.fstat(descriptor).st_size < offset:
                    offset = 0
                    continue
                if not more:
                    return
                await wait_for(changes, clock, CHECK_SECONDS)
    finally:
        os.close(descriptor)


async def _read(descriptor: int, offset: int) -> bytes:
    """Return the data at *offset*: immediately from the page cache, otherwise read in a thread.

    Yields to other tasks between reads, so that a fast client does not block the event loop.
    """
    block = bytearray(BLOCK_BYTES)
    try:
        size = os.preadv(descriptor, [block], offset, os.RWF_NOWAIT)
    except OSError:  # Not cached, or not supported by the file system.
        return await asyncio.to_thread(os.pread, descriptor, BLOCK_BYTES, offset)
    await asyncio.sleep(0)
    return bytes(memoryview(block)[:size])


async def opened(open_file: Callable[[], T]) -> T:
    """Call *open_file* in a thread; its result is closed if the caller is cancelled."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_file))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_result)
        raise


def _close_result(opening: asyncio.Future[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        _close(opening.result())


def _close(found: int | RotationCheck) -> None:
    descriptor = found.successor if isinstance(found, RotationCheck) else found
    if descriptor is not None:
        os.close(descriptor)


async def _complete_lines(rotated: RotatedLogs | None, name: str) -> AsyncGenerator[bytes, None]:
    """Yield the content of a rotated file; nothing if it was deleted."""
    file = None if rotated is None else await asyncio.to_thread(rotated.open, name)
    if file is None:
        return
    try:
        while block := await asyncio.to_thread(file.read, BLOCK_BYTES):
            yield block
    finally:
        file.close()


def tail_offset(descriptor: int, lines: int) -> int:
    """Return the offset of the last *lines* lines; a last line without a line break counts."""
    position = os.fstat(descriptor).st_size
    if lines <= 0:
        return position
    if position and os.pread(descriptor, 1, position - 1) == b"\n":
        position -= 1
    while position > 0:
        start = max(0, position - BLOCK_BYTES)
        block = os.pread(descriptor, position - start, start)
        count = block.count(b"\n")
        if count < lines:
            lines -= count
            position = start
            continue
        end = len(block)
        for _ in range(lines):
            end = block.rfind(b"\n", 0, end)
        return start + end + 1
    return 0


def _check_replaced(open_file: Open, descriptor: int) -> RotationCheck:
    """Return the file that replaced *descriptor*'s, if any."""
    try:
        found = open_file()
    except OSError:
        return RotationCheck()
    ours, theirs = os.fstat(descriptor), os.fstat(found)
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
        os.close(found)
        return RotationCheck()
    return RotationCheck(found)
