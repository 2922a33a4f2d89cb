"""How a loop is doing: the first failure of a row and the recovery are logged, not each retry."""

from __future__ import annotations

import logging

from nodeagent.base.aio import Clock
from nodeagent.base.duration import Duration

_log = logging.getLogger(__name__)


class LoopHealth:
    """Success and failure of a repeated call.

    :param limit_seconds: without a success for so long, the loop counts as unhealthy.
    """

    def __init__(self, name: str, clock: Clock, limit_seconds: float) -> None:
        self._name, self._clock, self.limit_seconds = name, clock, limit_seconds
        self._last_success = clock.now()
        self._error: BaseException | None = None

    def failed(self, error: BaseException) -> None:
        """Note a failure."""
        if self._error is None:
            _log.error("Loop fails", extra={"loop": self._name, "err": str(error)})
        self._error = error

    def succeeded(self) -> bool:
        """Note a success; return whether it ends a row of failures."""
        recovered = self._error is not None
        if recovered:
            _log.info("Loop works again", extra={"loop": self._name})
        self._error = None
        self._last_success = self._clock.now()
        return recovered

    @property
    def problem(self) -> str:
        """Say what is wrong, or nothing."""
        age = self._clock.now() - self._last_success
        if age < self.limit_seconds:
            return ""
        seen, limit = Duration.of(seconds=round(age)), Duration.of(seconds=self.limit_seconds)
        return f"{self._name} was last seen active {seen} ago; threshold is {limit}"
