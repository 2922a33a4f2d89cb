"""Caches without entries that have not been used for a while. No I/O.

:func:`age_caches` is called periodically. A full cache of :mod:`functools` would keep its entries, and with them pages
of memory that contain nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

P = ParamSpec("P")
R = TypeVar("R")
V = TypeVar("V")

_MISSING = object()


class _Clearable(Protocol):
    def cache_clear(self) -> None: ...


class AgingCache(Generic[V]):
    """Values by key, in two generations: those used since the last call of :meth:`age`, and older ones.

    :param most: entries per generation.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._used: dict[Hashable, V] = {}
        self._older: dict[Hashable, V] = {}
        _AGING.add(self)

    def __len__(self) -> int:
        return len(self._used) + len(self._older)

    def get(self, key: Hashable, default: Any = None) -> Any:
        found = self._used.get(key, _MISSING)
        if found is not _MISSING:
            return found
        found = self._older.pop(key, _MISSING)
        if found is _MISSING:
            return default
        self.put(key, cast("V", found))
        return found

    def put(self, key: Hashable, value: V) -> None:
        if len(self._used) >= self._most:
            self.age()
        self._used[key] = value

    def age(self) -> None:
        """Drop the older entries."""
        self._older, self._used = self._used, {}

    def clear(self) -> None:
        self._older, self._used = {}, {}


_AGING: WeakSet[AgingCache[Any]] = WeakSet()
_CLEARED: WeakSet[_Clearable] = WeakSet()


def aging_cache(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function for at most 2 * *most* different calls; exceptions are not cached.

    Results without further use are dropped by :func:`age_caches`: for results that take long to compute.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        results: AgingCache[R] = AgingCache(most)

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> R:
            key = (arguments, tuple(named.items())) if named else arguments
            found = results.get(key, _MISSING)
            if found is _MISSING:
                found = function(*arguments, **named)
                results.put(key, found)
            return cast("R", found)

        return call

    return decorate


def cleared_cache(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache the results of a function for *most* different calls until the next call of :func:`age_caches`.

    For results that are computed fast: a call is faster than one of :func:`aging_cache`.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(most)(function)
        _CLEARED.add(cached)
        return cast("Callable[P, R]", cached)

    return decorate


def age_caches() -> None:
    """Drop the entries of all caches that have not been used since the previous call."""
    for cache in list(_AGING):
        cache.age()
    for cached in list(_CLEARED):
        cached.cache_clear()
