"""Latest decisions of plugins; a repeated decision is counted instead of being recorded again. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from nodeagent.pluginmanager.records import Decision

MAX_DECISIONS = 200


class DecisionLog:
    """Decisions in the order of their first occurrence."""

    def __init__(self) -> None:
        self._decisions: deque[Decision] = deque()
        self._current: dict[tuple[str, str, str], Decision] = {}

    def __iter__(self) -> Iterator[Decision]:
        return iter(self._decisions)

    def record(
        self, plugin: str, hook: str, subject: str, decision: str, at: float, *, skipped: bool = False
    ) -> Decision | None:
        """Record a decision; return it if it differs from the previous one of the plugin about the subject."""
        key = (plugin, hook, subject)
        current = self._current.get(key)
        if current is not None and current.verdict == decision:  # wording: ok
            current.count, current.last_at = current.count + 1, at
            return None
        new = self._current[key] = Decision(plugin, hook, subject, decision, at, last_at=at, skipped=skipped)
        self._decisions.append(new)
        if len(self._decisions) > MAX_DECISIONS:
            oldest = self._decisions.popleft()
            oldest_key = (oldest.plugin, oldest.hook, oldest.subject)
            if self._current.get(oldest_key) is oldest:
                del self._current[oldest_key]
        return new

    def end(self, plugin: str, hook: str, subject: str) -> None:
        """Record that the plugin makes no decision about the subject any more."""
        self._current.pop((plugin, hook, subject), None)

    def about(self, subject: str) -> Sequence[Decision]:
        """Return the decisions about a subject."""
        return [each for each in self._decisions if each.subject == subject]
