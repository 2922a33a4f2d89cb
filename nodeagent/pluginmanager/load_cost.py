"""Cost of loading each plugin: CPU time and memory of its import and of its provider hooks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from nodeagent.base.malloc import resident_bytes
from nodeagent.base.structs import MutableStruct


class LoadCost(MutableStruct):
    """CPU time and growth of the agent's resident memory while a plugin was loaded."""

    cpu_seconds: float = 0.0
    resident_bytes: int = 0


class LoadCosts:
    """Cost by plugin. A module that several plugins import is attributed to the first one."""

    def __init__(self) -> None:
        self._costs: dict[str, LoadCost] = {}
        self._nested: list[LoadCost] = []

    def of(self, plugin: str) -> LoadCost:
        """Return the cost of a plugin so far."""
        return self._costs.get(plugin, LoadCost())

    @contextmanager
    def measured(self, plugin: str) -> Iterator[None]:
        """Attribute what happens in the context to *plugin*, except for nested contexts of this object."""
        cpu, resident = time.thread_time(), resident_bytes()
        self._nested.append(LoadCost())
        try:
            yield
        finally:
            cpu, resident = time.thread_time() - cpu, resident_bytes() - resident
            nested = self._nested.pop()
            cost = self._costs.setdefault(plugin, LoadCost())
            cost.cpu_seconds += cpu - nested.cpu_seconds
            cost.resident_bytes += resident - nested.resident_bytes
            if self._nested:
                self._nested[-1].cpu_seconds += cpu
                self._nested[-1].resident_bytes += resident
