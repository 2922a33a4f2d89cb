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

import msgspec

from nodeagent.base.aio import Clock
from nodeagent.pluginmanager import Decision, PluginInfo, PluginManager

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
    """Return the last picture that an agent with root directory *root* left, or an empty one.

    What is no picture, because another version wrote it or a disk was full, counts as none.
    """
    try:
        return dict(msgspec.to_builtins(msgspec.json.decode((root / FILE_NAME).read_bytes(), type=_Picture)))
    except (OSError, ValueError, msgspec.MsgspecError):
        return {}


class _Picture(msgspec.Struct):
    """What is read of the file; an agent of another version may have written more, or something else."""

    plugins: list[PluginInfo]
    decisions: list[Decision]


def _write(path: Path, picture: Mapping[str, Any]) -> None:
    aside = path.with_suffix(".tmp")
    aside.write_text(json.dumps(picture))
    aside.chmod(0o640)
    aside.replace(path)
