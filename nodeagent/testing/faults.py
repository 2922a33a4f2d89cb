"""Fault injection for fakes: failing and hanging methods."""

from __future__ import annotations

import asyncio
from collections import defaultdict

_ALL = "*"


class Faults:
    """Mixin for fakes: failures and hangs by the name of the method, ``*`` for all methods."""

    def __init__(self) -> None:
        self._failures: dict[str, list[tuple[BaseException, int | None]]] = defaultdict(list)
        self._hangs: dict[str, asyncio.Event] = {}

    def fail(self, method: str, error: BaseException, times: int | None = 1) -> None:
        """Raise *error* in the next *times* calls of *method*; ``None`` is until :meth:`recover`."""
        self._failures[method].append((error, times))

    def hang(self, method: str) -> None:
        """Block calls of *method* until :meth:`recover`."""
        self._hangs.setdefault(method, asyncio.Event())

    def recover(self, method: str | None = None) -> None:
        """Remove the faults of *method*, or of all methods; blocked calls continue."""
        for name in [method] if method else [*self._failures]:
            self._failures.pop(name, None)
        for name in [method] if method else [*self._hangs]:
            if (event := self._hangs.pop(name, None)) is not None:
                event.set()

    async def _pass(self, method: str) -> None:
        """Apply the faults of *method*; called at the start of each method of a fake."""
        for name in (method, _ALL):
            if (event := self._hangs.get(name)) is not None:
                await event.wait()
        for name in (method, _ALL):
            if failures := self._failures.get(name):
                error, times = failures[0]
                if times is not None and times <= 1:
                    failures.pop(0)
                elif times is not None:
                    failures[0] = (error, times - 1)
                raise error
