"""Plugin report: states, call statistics and decisions of plugins on disk, for ``nodeagent plugins list``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.aio import Clock
from nodeagent.pluginmanager import Decision, PluginInfo, PluginManager

_log = logging.getLogger(__name__)

FILE_NAME = "plugins_state.json"
SETTLE_SECONDS = 0.5


class PluginReport:
    """Writes the report after each decision, coalescing decisions in quick succession."""

    def __init__(self, plugins: PluginManager, root: Path, clock: Clock) -> None:
        self._plugins, self._path, self._clock = plugins, root / FILE_NAME, clock

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            await self._plugins.decided.wait()
            await self._clock.sleep(SETTLE_SECONDS)
            self._plugins.decided.clear()
            report = {
                "pid": os.getpid(),
                "plugins": [asdict(info) for info in self._plugins.plugins()],
                "decisions": [asdict(decision) for decision in self._plugins.decisions],
            }
            try:
                await asyncio.to_thread(_write, self._path, report)
            except OSError as error:
                _log.warning("Failed to write plugin report", extra={"path": str(self._path), "err": str(error)})


def read_report(root: Path) -> Mapping[str, Any]:
    """Return the last report of the agent with root directory *root*, empty if there is none.

    An invalid report, for example of another version or truncated by a full disk, counts as none.
    """
    try:
        return dict(msgspec.to_builtins(msgspec.json.decode((root / FILE_NAME).read_bytes(), type=_Report)))
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}


class _Report(msgspec.Struct):
    """The fields that are read; a report of another version may have others."""

    plugins: list[PluginInfo]
    decisions: list[Decision]


def _write(path: Path, report: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(report))
    temporary.chmod(0o640)
    temporary.replace(path)
