"""Times at which a resource was below a limit."""

from __future__ import annotations


class Lows:
    """Times at which a resource was below a limit, in order."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float]] = []
        self._since: float | None = None

    def observe(self, now: float, *, low: bool) -> None:
        """Record whether the resource is below the limit from *now* on."""
        if low and self._since is None:
            self._since = now
        elif not low and self._since is not None:
            self._times.append((self._since, now))
            self._since = None

    def times(self, now: float) -> list[tuple[float, float]]:
        """Return start and end of each time until *now*."""
        return self._times if self._since is None else [*self._times, (self._since, now)]

    def within(self, start: float, now: float) -> bool:
        """Return whether the resource was below the limit at a time since *start*."""
        return any(end >= start for _, end in self.times(now))

    def since(self, now: float, gap: float) -> float | None:
        """Return since when the resource has been below the limit, without regard to times of up to *gap* seconds."""
        start, until = None, now
        for begin, end in reversed(self.times(now)):
            if until - end > gap:
                break
            start = until = begin
        return start

    def forget(self, before: float) -> None:
        """Drop the times that ended before a time."""
        self._times = [each for each in self._times if each[1] >= before]
