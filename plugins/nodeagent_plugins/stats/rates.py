"""Current CPU usage, computed from the cumulative usage."""

from __future__ import annotations

from msgspec import field

from nodeagent.base.structs import MutableStruct

MIN_NANOSECONDS = 500_000_000
"""Minimum interval between samples; the previous rate remains for closer ones."""


class _Record(MutableStruct):
    time: int
    used: int
    rate: int | None = None


class CpuRates(MutableStruct):
    """Stores the last sample by key."""

    _records: dict[str, _Record] = field(default_factory=dict)

    def update(self, key: str, time: int, used: int | None) -> int | None:
        """Add a sample in nanoseconds; return the rate in nanocores since the previous one, if any."""
        if used is None:
            return None
        record = self._records.get(key)
        if record is None or used < record.used:
            self._records[key] = _Record(time, used)
            return None
        if time - record.time >= MIN_NANOSECONDS:
            record.rate = (used - record.used) * 1_000_000_000 // (time - record.time)
            record.time, record.used = time, used
        return record.rate

    def keep(self, keys: set[str]) -> None:
        """Drop all other keys."""
        for key in self._records.keys() - keys:
            del self._records[key]
