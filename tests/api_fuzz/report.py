"""Outcome of a run of the fuzz test. No I/O."""

from __future__ import annotations

import collections
import heapq
import re
from dataclasses import dataclass, field

from tests.api_fuzz.checks import message, problem
from tests.api_fuzz.client import Reply
from tests.api_fuzz.requests import FuzzRequest
from tests.api_fuzz.usage import Usage

_SLOWEST = 12
_MOST_FAILURES = 200
_DETAILS = re.compile(r"""(?:"|'|\().*|[\w/.-]*[/\d][\w/.-]*|\n.*""", re.DOTALL)
"""Parts of messages that differ between errors of one kind."""


@dataclass
class Report:
    """Outcome of a run."""

    requests: int = 0
    seconds: float = 0.0
    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    failures: list[tuple[int, FuzzRequest, str]] = field(default_factory=list)
    failed: int = 0
    hangs: int = 0
    upstream_errors: collections.Counter[str] = field(default_factory=collections.Counter)
    """Responses with code 5xx that are no failures, by message."""
    slowest: list[tuple[float, int, str]] = field(default_factory=list)
    usage: dict[str, Usage] = field(default_factory=dict)
    """Usage by the time of its measurement, in this order."""
    tracebacks: int = 0
    not_deleted: list[str] = field(default_factory=list)
    """Collections that still had new objects after a cleanup."""

    def add(self, number: int, request: FuzzRequest, reply: Reply, previous: FuzzRequest | None = None) -> str:
        """Add one response, and return the reason why it is wrong, or an empty string.

        :param previous: request before it on the same connection.
        """
        self.requests += 1
        self.codes[reply.code] += 1
        self.hangs += reply.hung
        found = problem(request, reply)
        if found:
            self.failed += 1
            if reply.error and previous is not None:
                found += f" after {previous.to_json()}"
            if len(self.failures) < _MOST_FAILURES:
                self.failures.append((number, request, found))
        elif reply.code >= 500:
            text = message(reply)
            self.upstream_errors[f"{reply.code} {_DETAILS.sub('…', text)[:160]}"] += 1
        if not request.is_watch:
            item = (reply.seconds, number, f"{request.method} {request.path[:160]}")
            (heapq.heappush if len(self.slowest) < _SLOWEST else heapq.heappushpop)(self.slowest, item)
        return found

    def text(self) -> str:
        """Return the figures first, then details."""
        return "\n".join((*self._figures(), *self._details()))

    def _figures(self) -> list[str]:
        rate = self.requests / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.requests} requests in {self.seconds:.1f} s, {rate:.0f}/s",
            f"{self.failed} failed, {self.hangs} hangs, {self.tracebacks} tracebacks",
            "statuses: " + _counts(self._classes()),
            "codes: " + _counts(self.codes),
        ]
        return [*lines, *(f"{name}: {usage.text()}" for name, usage in self.usage.items())]

    def _classes(self) -> collections.Counter[str]:
        found: collections.Counter[str] = collections.Counter()
        for code, count in self.codes.items():
            found[_class(code)] += count
        return found

    def _details(self) -> list[str]:
        lines = []
        if len(self.usage) > 1:
            first, last = next(iter(self.usage.values())).tasks, list(self.usage.values())[-1].tasks
            more = {name: last[name] - first.get(name, 0) for name in last if last[name] > first.get(name, 0)}
            lines += [f"more tasks: {count} × {name}" for name, count in sorted(more.items())]
        lines += [f"slow: {seconds:.3f} s, request {number}: {path}" for seconds, number, path in sorted(self.slowest)]
        lines += [f"not deleted: {text}" for text in self.not_deleted]
        lines += [f"expected: {count} × {text}" for text, count in self.upstream_errors.most_common(20)]
        lines += [
            f"failed: request {number}: {text}\n  {request.to_json()[:2000]}" for number, request, text in self.failures
        ]
        return lines


def _class(code: int) -> str:
    return f"{code // 100}xx" if code else "none"


def _counts(counts: collections.Counter[str] | collections.Counter[int]) -> str:
    return ", ".join(f"{name or 'none'} × {count}" for name, count in sorted(counts.items()))
