"""Cache of results of functions, without those that have not been used for a while. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")

_MISSING = object()


class _Results:
    """Results by arguments, in two generations: those used since the last call of :meth:`age`, and older ones."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any:
        found = self._used.get(key, _MISSING)
        if found is _MISSING and (found := self._older.pop(key, _MISSING)) is not _MISSING:
            self.put(key, found)
        return found

    def put(self, key: Hashable, result: Any) -> None:
        if len(self._used) >= self._most:
            self.age()
        self._used[key] = result

    def age(self) -> None:
        """Drop the older results."""
        self._older, self._used = self._used, {}


_CACHES: WeakSet[_Results] = WeakSet()


def aging_cache(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function for at most 2 * *most* different calls; exceptions are not cached.

    Unlike those of :func:`functools.lru_cache`, results without further use are dropped by :func:`age_caches`:
    for results that need much memory, such as compiled expressions of clients.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        results = _Results(most)

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            key = (arguments, tuple(named.items())) if named else arguments
            found = results.get(key)
            if found is _MISSING:
                found = function(*arguments, **named)
                results.put(key, found)
            return cast("R", found)

        _CACHES.add(results)
        return call

    return decorate


def age_caches() -> None:
    """Drop the results that have not been used since the previous call."""
    for results in list(_CACHES):
        results.age()
