"""Limits of the agent's process: OOM score and open files.

spec: config.oomScoreAdj, config.maxOpenFiles
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base.aio import Clock
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.hooks import PluginHost

_log = logging.getLogger(__name__)

REPEAT_SECONDS = 300.0
OOM_SCORE_FILE = Path("/proc/self/oom_score_adj")


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext, plugins: PluginHost) -> None:
    plugins.register(
        ProcessLimits(config.oom_score_adj, config.max_open_files, context.clock), name="process_limits.keeper"
    )


class ProcessLimits:
    """Sets both limits, and the OOM score again every five minutes; failures are only logged."""

    name = "process limits"

    def __init__(self, oom_score: int, open_files: int, clock: Clock, *, oom_score_file: Path = OOM_SCORE_FILE) -> None:
        self._oom_score, self._open_files, self._clock = oom_score, open_files, clock
        self._file = oom_score_file
        self._failed = False

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    async def run(self) -> None:
        """Apply the limits until cancelled."""
        limit_open_files(self._open_files)
        while True:
            await asyncio.to_thread(self._set_oom_score)
            await self._clock.sleep(REPEAT_SECONDS)

    def _set_oom_score(self) -> None:
        try:
            if int(self._file.read_text(encoding="ascii")) != self._oom_score:
                self._file.write_text(str(self._oom_score), encoding="ascii")
        except OSError as error:
            if not self._failed:  # Logged once, because it is permanent.
                details = {"wanted": self._oom_score, "err": str(error)}
                _log.info("Failed to ApplyOOMScoreAdj", extra=details)
            self._failed = True
        else:
            self._failed = False


def limit_open_files(limit: int) -> None:
    """Set the limit of open files; if *limit* is not permitted, set the maximum."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    except (OSError, ValueError) as error:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        granted = min(limit, most) if most != resource.RLIM_INFINITY else limit
        _log.warning(
            "Failed to set rlimit on max file handles",
            extra={"wanted": limit, "granted": granted, "err": str(error)},
        )
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (granted, most))
        except (OSError, ValueError):
            _log.exception("Failed to set rlimit on max file handles")
