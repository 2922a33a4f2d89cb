"""Background loop that removes torn files of CNI, and the check that reports them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from nodeagent.base.aio import Clock
from nodeagent.contracts.checks import Finding, problem
from nodeagent_plugins.cni_state.torn_files import TornFile, TornFiles, remove

CHECK_SECONDS = 60.0
SETTLE_SECONDS = 2.0
"""Time after which a file that was being written has its content."""

_log = logging.getLogger(__name__)


class CniRepair:
    """Removes torn files of CNI when the agent starts and once per minute."""

    name = "CNI repair"

    def __init__(self, files: TornFiles, clock: Clock) -> None:
        self._files, self._clock = files, clock
        self._failure = ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.repair()
            except OSError as error:
                if str(error) != self._failure:
                    _log.warning("Failed to repair CNI state", extra={"err": str(error)})
                self._failure = str(error)
            else:
                self._failure = ""
            await self._clock.sleep(CHECK_SECONDS)

    async def repair(self) -> None:
        """Remove the torn files.

        :raises OSError: a directory cannot be read, or a file cannot be removed, although the others were.
        """
        failure: OSError | None = None
        for file in await settled(self._files, self._clock):
            try:
                removed = await asyncio.to_thread(remove, file)
            except OSError as error:
                failure = error
                continue
            if removed:
                _log.warning("Removed torn CNI file", extra={"kind": file.kind, "path": str(file.path)})
        if failure is not None:
            raise failure

    async def check(self) -> Sequence[Finding]:
        """Return the findings of ``nodeagent doctor``."""
        effects = {
            "result": "its sandbox cannot be stopped by containerd before 2.0",
            "address": "the address is not assigned to pods anymore",
        }
        remedy = "remove it, as the running agent does within a minute; a loss of power or a full disk tears such files"
        return [
            problem(f"CNI file {file.path} has no valid content: {effects[file.kind]}", remedy)
            for file in await settled(self._files, self._clock)
        ]


async def settled(files: TornFiles, clock: Clock) -> Sequence[TornFile]:
    """Return the torn files without those that are being written.

    :raises OSError: a directory cannot be read.
    """
    first = await asyncio.to_thread(files.find)
    if not first:
        return []
    await clock.sleep(SETTLE_SECONDS)
    later = await asyncio.to_thread(files.find)
    return [file for file in later if file in first]
