"""Quarantine of plugins that fail repeatedly. No I/O."""

from __future__ import annotations

from collections import deque

from nodeagent.base.structs import Struct


class QuarantinePolicy(Struct, frozen=True):
    """Limits after which a plugin's hooks are skipped, from ``quarantine`` of ``--plugin-config``."""

    failures: int = 5
    """Failed calls within the window that start a quarantine; 0 disables it."""
    window_seconds: float = 60.0
    retry_seconds: float = 30.0
    """Duration of the first quarantine; each one that follows a failed attempt takes twice as long."""
    max_retry_seconds: float = 600.0


class Quarantine:
    """State of one plugin: healthy, failing, in quarantine, or on trial after one.

    On trial, one call is attempted; its failure starts the next quarantine. Times are monotonic.
    """

    __slots__ = ("_attempting", "_failures", "_policy", "_retry", "failing_since", "last_error", "seconds", "until")

    def __init__(self, policy: QuarantinePolicy) -> None:
        self._policy = policy
        self._failures: deque[float] = deque(maxlen=max(policy.failures, 1))
        self._retry = policy.retry_seconds
        self._attempting = False
        self.until: float | None = None
        """End of the latest quarantine, ``None`` if the plugin has succeeded since."""
        self.failing_since: float | None = None
        """Time of the first failure since the plugin last succeeded."""
        self.last_error = ""
        self.seconds = 0.0
        """Duration of the latest quarantine."""

    def allows(self, now: float) -> bool:
        """Return whether the plugin may be called."""
        return self.until is None or (now >= self.until and not self._attempting)

    def attempt(self) -> None:
        """Record the start of a call."""
        self._attempting = self.until is not None

    def cancelled(self) -> None:
        """Record the end of a call without a result."""
        self._attempting = False

    def failed(self, now: float, error: str) -> bool:
        """Record a failed call; return whether it starts a quarantine."""
        self.last_error = error
        if self.failing_since is None:
            self.failing_since = now
        if self.until is not None and now < self.until:
            return False  # A call that was already in flight when the quarantine started.
        self._failures.append(now)
        self._attempting = False
        on_trial = self.until is not None
        if not on_trial:
            recent = sum(1 for at in self._failures if now - at <= self._policy.window_seconds)
            if not self._policy.failures or recent < self._policy.failures:
                return False
        self.seconds = self._retry
        self.until = now + self.seconds
        self._retry = min(2 * self._retry, self._policy.max_retry_seconds)
        return True

    def recovered(self, now: float) -> None:
        """Record that the condition of earlier failures is over: a quarantine becomes a trial."""
        if self.until is None:
            self.failing_since = None
        else:
            self.until = min(self.until, now)

    def succeeded(self, now: float) -> bool:
        """Record a successful call; return whether it ends a quarantine."""
        if self.until is not None and now < self.until:
            return False
        released = self.until is not None
        self.until, self._attempting = None, False
        self._retry = self._policy.retry_seconds
        if released:
            self._failures.clear()
        self.failing_since = None
        return released
