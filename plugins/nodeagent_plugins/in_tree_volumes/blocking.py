"""Blocking work in dedicated threads, so that work on a dead server exhausts no shared pool."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_own_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run *work* in a new thread and return its result; cancellation stops only the wait."""
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*args, **kwargs)
        except BaseException as raised:  # Passed to the caller.
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    # A daemon thread does not delay the exit of the agent.
    threading.Thread(target=run, name="nodeagent-volume", daemon=True).start()
    finished: T = await future
    return finished
