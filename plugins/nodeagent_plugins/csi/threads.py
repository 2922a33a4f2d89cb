"""Threads for file operations on volumes: a server that does not respond must not block the shared ones."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_LIMIT = 16


class Threads:
    """Runs blocking functions in dedicated threads."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_LIMIT, thread_name_prefix="asyncio-csi")

    async def run(self, function: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Return the result of *function*; a cancelled call continues in its thread."""
        call = functools.partial(function, *arguments, **keywords)
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        """Reject further calls; running ones continue."""
        self._pool.shutdown(wait=False, cancel_futures=True)
