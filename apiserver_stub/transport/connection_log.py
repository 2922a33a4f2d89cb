"""Log of connection errors."""

from __future__ import annotations

import asyncio
import logging

from nodeagent.base.logging import v_level, verbose

_log = logging.getLogger(__name__)

_LOG_VERBOSITY = 2
_LOG_SECONDS = 1.0


class ThrottledConnectionLog:
    """Logs errors of connections at verbosity 2: at most one per second, with the number suppressed since."""

    def __init__(self) -> None:
        self._next, self._suppressed = 0.0, 0

    def report(self, message: str, peer: str | None, problem: object) -> None:
        if not verbose(_log, _LOG_VERBOSITY):
            return
        now = asyncio.get_running_loop().time()
        if now < self._next:
            self._suppressed += 1
            return
        fields = {"peer": peer, "err": " ".join(str(problem).split())[:200], "suppressed": self._suppressed}
        self._next, self._suppressed = now + _LOG_SECONDS, 0
        _log.log(v_level(_LOG_VERBOSITY), message, extra=fields)  # wording: ok - the callers pass constants
