"""Trace: the events of a simulation in order, with a hash that two equal runs have in common."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable

RECENT = 4000


class Trace:
    """Record of events; only the most recent ones are retained.

    :param now: returns the virtual time in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._hash = now, hashlib.sha256()
        self.recent: deque[str] = deque(maxlen=RECENT)
        self.counts: Counter[str] = Counter()
        """Number of events by their first word."""

    def add(self, kind: str, text: str = "") -> None:
        """Record an event at the current time."""
        line = f"{self._now():12.3f}  {kind:<10}  {text}"
        self._hash.update(line.encode())
        self.recent.append(line)
        self.counts[kind] += 1

    def digest(self) -> str:
        """Return the hash of all events so far."""
        return self._hash.hexdigest()[:16]
