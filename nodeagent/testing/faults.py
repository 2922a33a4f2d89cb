"""Failures and hangs that a test orders from a fake."""

from __future__ import annotations

import asyncio
from collections import defaultdict

_ALL = "*"


class Faults:
    """Mixed into fakes: ``fail`` and ``hang`` by the name of the method, ``*`` for all of them."""

    def __init__(self) -> None:
        self._failures: dict[str, list[tuple[BaseException, int | None]]] = defaultdict(list)
        self._hangs: dict[str, asyncio.Event] = {}

    def fail(self, method: str, error: BaseException, times: int | None = 1) -> None:
        """Let the next *times* calls of *method* raise *error*; ``None`` is until :meth:`recover`."""
        self._failures[method].append((error, times))

    def hang(self, method: str) -> None:
        """Let calls of *method* wait until :meth:`recover`."""
        self._hangs.setdefault(method, asyncio.Event())

    def recover(self, method: str | None = None) -> None:
        """End the failures and hangs of *method*, or all of them; calls that hang go on."""
        for name in [method] if method else [*self._failures]:
            self._failures.pop(name, None)
        for name in [method] if method else [*self._hangs]:
            if (event := self._hangs.pop(name, None)) is not None:
                event.set()

    async def _pass(self, method: str) -> None:
        """Wait or raise as ordered; called at the start of each method."""
        for name in (method, _ALL):
            if (event := self._hangs.get(name)) is not None:
                await event.wait()
        for name in (method, _ALL):
            if waiting := self._failures.get(name):
                error, times = waiting[0]
                if times is not None and times <= 1:
                    waiting.pop(0)
                elif times is not None:
                    waiting[0] = (error, times - 1)
                raise error
