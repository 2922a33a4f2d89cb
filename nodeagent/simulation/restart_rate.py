"""Rate at which the containers of a pod are started."""

from __future__ import annotations

from collections.abc import Collection

from nodeagent.simulation.runtime_objects import Container

WINDOW_SECONDS = 60.0
MOST_STARTS = 5
"""Largest number of starts of a container in the window; its back-off is 10, 20, 40 seconds and so on."""


class RestartRate:
    """Latest starts of containers by agent process, as a new process has no back-off."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, str], list[float]] = {}
        self._process = 0

    def start(self, container: Container, process: int, now: float) -> str:
        """Record a start; return that there are too many, or an empty text."""
        if process != self._process:
            self._process, self._starts = process, {}
        key = container.sandbox.uid, container.name
        recent = [time for time in self._starts.get(key, ()) if time > now - WINDOW_SECONDS]
        self._starts[key] = [*recent, now]
        if len(recent) < MOST_STARTS:
            return ""
        return f"container {key[1]} of pod {key[0]} is started {len(recent) + 1} times in {WINDOW_SECONDS:.0f} s"

    def forget(self, retained: Collection[str]) -> None:
        """Drop the starts of pods with other UIDs than those *retained*."""
        self._starts = {key: times for key, times in self._starts.items() if key[0] in retained}
