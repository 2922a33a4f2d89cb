"""Connections without sockets, and the event loop on which they run."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


class Transport(asyncio.Transport):
    """Transport that records the data written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def pause_reading(self) -> None:
        """Do nothing: the test decides what is received."""

    resume_reading = pause_reading

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Do nothing: the test calls the protocol."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: everything is written."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run *coroutine* on the event loop of this process."""
    return _loop().run_until_complete(coroutine)


async def settle() -> None:
    """Run the other tasks until none of them can continue without waiting."""
    for _ in range(5):
        await asyncio.sleep(0)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    return loop
