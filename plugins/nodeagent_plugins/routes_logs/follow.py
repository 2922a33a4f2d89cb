"""Reads a file from some place to its end, and on as it grows and is rotated."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

from nodeagent_plugins.routes_logs.watch import Watches

from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for

BLOCK_BYTES = 256 * 1024
LOOK_SECONDS = 1.0

T = TypeVar("T", int, int | None)

Open = Callable[[], int]
"""Opens the file anew and returns its descriptor; raises ``OSError`` while it is not there."""


async def read_file(
    open_file: Open,
    directory: str,
    watches: Watches,
    clock: Clock,
    *,
    tail_lines: int | None = None,
    goes_on: Callable[[], bool] | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a file.

    :param directory: holds the file; watched while following.
    :param tail_lines: begin that many lines before the end.
    :param goes_on: for following: whether more may still be written. A file that was renamed away is read to its end,
        then the one in its place from the start; a file that shrank is read anew.
    :raises OSError: the file cannot be opened.
    """
    descriptor = await opened(open_file)
    try:
        offset = 0 if tail_lines is None else await asyncio.to_thread(tail_offset, descriptor, tail_lines)
        if goes_on is None:
            while block := await asyncio.to_thread(os.pread, descriptor, BLOCK_BYTES, offset):
                offset += len(block)
                yield block
            return
        with watches.watching(directory) as news:
            while True:
                news.clear()
                more = goes_on()
                while block := await asyncio.to_thread(os.pread, descriptor, BLOCK_BYTES, offset):
                    offset += len(block)
                    yield block
                successor = await opened(partial(_successor, open_file, descriptor))
                if successor is not None:
                    # What was written between the last read and the renaming still belongs to the old file.
                    while block := await asyncio.to_thread(os.pread, descriptor, BLOCK_BYTES, offset):
                        offset += len(block)
                        yield block
                    os.close(descriptor)
                    descriptor, offset = successor, 0
                    continue
                if os.fstat(descriptor).st_size < offset:
                    offset = 0
                    continue
                if not more:
                    return
                await wait_for(news, clock, LOOK_SECONDS)
    finally:
        os.close(descriptor)


async def opened(open_file: Callable[[], T]) -> T:
    """Call *open_file* in a thread; what it opens is closed when nobody waits for it any more."""
    opening = asyncio.ensure_future(asyncio.to_thread(open_file))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_result)
        raise


def _close_result(opening: asyncio.Future[Any]) -> None:
    if not opening.cancelled() and opening.exception() is None and opening.result() is not None:
        os.close(opening.result())


def tail_offset(descriptor: int, lines: int) -> int:
    """Return where the last *lines* lines begin; a last line without an end counts as one."""
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


def _successor(open_file: Open, descriptor: int) -> int | None:
    """Return the file that now stands in the place of *descriptor*'s, if it is another one."""
    try:
        found = open_file()
    except OSError:
        return None
    ours, theirs = os.fstat(descriptor), os.fstat(found)
    if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino):
        os.close(found)
        return None
    return found
