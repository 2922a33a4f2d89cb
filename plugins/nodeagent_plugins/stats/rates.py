"""How much of a core something uses now, from what it has used in all."""

from __future__ import annotations

from dataclasses import dataclass, field

MIN_NANOSECONDS = 500_000_000
"""Samples closer together say little; the rate before stays."""


@dataclass(slots=True)
class _Record:
    time: int
    used: int
    rate: int | None = None


@dataclass(slots=True)
class CpuRates:
    """Remembers the last sample of each key."""

    _records: dict[str, _Record] = field(default_factory=dict)

    def update(self, key: str, time: int, used: int | None) -> int | None:
        """Note a sample, both in nanoseconds; return the nanocores since the one before, if there was one."""
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
        """Forget everything else."""
        for key in self._records.keys() - keys:
            del self._records[key]
