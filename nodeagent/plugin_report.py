"""Keeps a picture of the plugins on disk, so that ``nodeagent plugins list`` can tell what they did."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nodeagent.base.aio import Clock
from nodeagent.pluginmanager import PluginManager

_log = logging.getLogger(__name__)

FILE_NAME = "plugins_state.json"
SETTLE_SECONDS = 0.5


class PluginReport:
    """Writes states, times and decisions of the plugins after each decision, several of a moment at once."""

    def __init__(self, plugins: PluginManager, root: Path, clock: Clock) -> None:
        self._plugins, self._path, self._clock = plugins, root / FILE_NAME, clock

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._plugins.decided.wait()
            await self._clock.sleep(SETTLE_SECONDS)
            self._plugins.decided.clear()
            picture = {
                "pid": os.getpid(),
                "plugins": [asdict(info) for info in self._plugins.plugins()],
                "decisions": [asdict(decision) for decision in self._plugins.decisions],
            }
            try:
                await asyncio.to_thread(_write, self._path, picture)
            except OSError as error:
                _log.warning("State of plugins not written", extra={"file": str(self._path), "err": str(error)})


def read_report(root: Path) -> Mapping[str, Any]:
    """Return the last picture that an agent with root directory *root* left, or an empty one."""
    try:
        content = json.loads((root / FILE_NAME).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(path: Path, picture: Mapping[str, Any]) -> None:
    aside = path.with_suffix(".tmp")
    aside.write_text(json.dumps(picture))
    aside.chmod(0o640)
    aside.replace(path)
