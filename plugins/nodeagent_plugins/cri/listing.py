"""Listings that stay the same object while nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Entry(NamedTuple):
    state: int
    info: Any


class Listing(Generic[T]):
    """Turns each complete listing of a runtime into a tuple, reusing what the one before gave.

    Of a sandbox or container only the state ever changes, so an entry with known id and state is not read again. The
    order that a runtime lists in, and that of labels inside, may differ each time; both are no change.

    :param read: makes our own type of an entry.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self._known: dict[str, _Entry] = {}
        self._last: tuple[T, ...] = ()

    def take(self, entries: Iterable[Any]) -> tuple[T, ...]:
        """Return the listing with *entries*; the same object as last time when nothing changed."""
        current, changed = {}, False
        for entry in entries:
            known = self._known.get(entry.id)
            if known is None or known.state != entry.state:
                known, changed = _Entry(entry.state, self._read(entry)), True
            current[entry.id] = known
        if changed or len(current) != len(self._known):
            self._known = current
            self._last = tuple(entry.info for entry in current.values())
        return self._last

    def look_up(self, entries: Iterable[Any]) -> tuple[T, ...]:
        """Return part of a listing, without forgetting what is not in it."""
        return tuple(
            known.info
            if (known := self._known.get(entry.id)) is not None and known.state == entry.state
            else self._read(entry)
            for entry in entries
        )
