"""Query for the API server's release after a start during which the server did not respond."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.release import ReleaseOrigin, SelectedRelease
from nodeagent.config.release import of_server, remember_release

_log = logging.getLogger(__name__)

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0


class ReleaseCheck:
    """Stores the release of the API server for the next start as soon as the server responds.

    The running agent keeps its release. If that was only assumed, because the server had never responded before,
    *restart* is called.

    :param selected: the release of the running agent.
    :param query: returns the version of the API server, empty without a response; blocking.
    :param restart: restarts the agent with the release of the server; pods keep running.
    """

    def __init__(
        self,
        selected: SelectedRelease,
        root_dir: Path,
        clock: Clock,
        query: Callable[[], str],
        restart: Callable[[], None],
    ) -> None:
        self._selected, self._root_dir, self._clock = selected, root_dir, clock
        self._query, self._restart = query, restart

    async def run(self) -> None:
        """Query until the server responds; returns immediately if its release is in use or does not matter."""
        if self._selected.origin not in (ReleaseOrigin.ASSUMED, ReleaseOrigin.REMEMBERED):
            return
        backoff = Backoff(_FIRST_SECONDS, _LONGEST_SECONDS)
        while True:
            found = of_server(await asyncio.to_thread(self._query))
            if found is not None:
                await asyncio.to_thread(remember_release, self._root_dir, found)
                self._compare(found)
                return
            await self._clock.sleep(backoff.next())

    def _compare(self, found: SelectedRelease) -> None:
        if found.release == self._selected.release:
            return
        details = {"release": str(self._selected.release), "serverVersion": found.server_version}
        if self._selected.assumed:
            _log.info("Restarting with the release of the API server, pods keep running", extra=details)
            self._restart()
        else:
            _log.warning("API server has another release, a restart of the agent applies it", extra=details)
