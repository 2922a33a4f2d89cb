"""Listings that remain the same object while nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class _Entry(NamedTuple):
    state: int
    info: Any


class Listing(Generic[T]):
    """Converts each complete listing of a runtime into a tuple and reuses the entries of the previous one.

    Only the state of a sandbox or container ever changes, so an entry with the same ID and state is not converted
    again. A different order of entries, or of labels within an entry, is not a change.

    :param read: converts an entry of the runtime's response.
    """

    def __init__(self, read: Callable[[Any], T]) -> None:
        self._read = read
        self._known: dict[str, _Entry] = {}
        self._last: tuple[T, ...] = ()

    def take(self, entries: Iterable[Any]) -> tuple[T, ...]:
        """Return the listing of *entries*; the same object as before if nothing changed."""
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

    def lookup(self, entries: Iterable[Any]) -> tuple[T, ...]:
        """Return a partial listing; entries that are not in it remain cached."""
        return tuple(
            known.info
            if (known := self._known.get(entry.id)) is not None and known.state == entry.state
            else self._read(entry)
            for entry in entries
        )
