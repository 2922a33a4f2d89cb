"""Health of the relist loop: the first of consecutive failures, its effect and the recovery are logged."""

from __future__ import annotations

import logging

from nodeagent.base.aio import Clock
from nodeagent.base.duration import Duration

_log = logging.getLogger(__name__)


class LoopHealth:
    """Success and failure of a repeated call.

    :param limit_seconds: time without a success after which the loop is unhealthy.
    """

    def __init__(self, name: str, clock: Clock, limit_seconds: float) -> None:
        self._name, self._clock, self.limit_seconds = name, clock, limit_seconds
        self._last_success = clock.now()
        self._error: BaseException | None = None
        self._reported = False

    def failed(self, error: BaseException) -> None:
        """Record a failure."""
        if self._error is None:
            _log.error("GenericPLEG: Unable to retrieve pods", extra={"err": str(error)})
        self._error = error
        if not self._reported and (problem := self.problem):
            _log.error("Skipping pod synchronization", extra={"err": problem})
            self._reported = True

    def succeeded(self) -> bool:
        """Record a success; return whether the previous call failed."""
        recovered = self._error is not None
        if recovered:
            _log.info("GenericPLEG recovered")
        self._error, self._reported = None, False
        self._last_success = self._clock.now()
        return recovered

    @property
    def problem(self) -> str:
        """The error message of an unhealthy loop, else empty."""
        age = self._clock.now() - self._last_success
        if age < self.limit_seconds:
            return ""
        seen, limit = Duration.of(seconds=round(age)), Duration.of(seconds=self.limit_seconds)
        return f"{self._name} was last seen active {seen} ago; threshold is {limit}"
