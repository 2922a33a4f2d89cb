"""The first violation of an invariant."""

from __future__ import annotations

from nodeagent.base.simulation.trace import Trace


class Violations:
    """Reports of violations, and the number of verified conditions."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.first = ""
        self.checked = 0

    def report(self, text: str) -> None:
        """Report a violation; only the first one counts."""
        if not self.first:
            self.first = text
        self._trace.add("violation", text)
