"""Storage of allocations: the checkpoint, and the boot that it belongs to.

Containers are created once the checkpoint is written, before it is on disk: it survives the end of the agent, and after
the host has crashed, no container has devices. The background loop then waits for the disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nodeagent_plugins.devices.checkpoint import FILE, CheckpointDamaged, CheckpointData, Encoder, read, write

BOOT_FILE = "devices_boot"
"""File alongside the checkpoint with the boot ID and the checksum of the last written checkpoint."""
SYNCED_FILE = f".{FILE}.synced"
"""Last checkpoint that was on disk, for the case that a crash of the host damages a later one."""
_log = logging.getLogger(__name__)


class Store:
    """The checkpoint below *directory*. Writes of concurrent callers are combined.

    :param snapshot: returns the current state.
    :param root: root directory of the kernel's files.
    """

    def __init__(self, directory: Path, snapshot: Callable[[], CheckpointData], root: Path = Path("/")) -> None:
        self.file = directory / FILE
        self._boot_file = directory / BOOT_FILE
        self._snapshot, self._root = snapshot, root
        self._lock = asyncio.Lock()
        self._requested = self._written = 0
        self._text, self._checksum = "", 0
        self._encoder = Encoder()
        self.unsynced = False
        """True if the last checkpoint may not be on disk."""

    async def load(self) -> tuple[CheckpointData, bool]:
        """Return the stored state, and whether it was written since the host booted.

        :raises CheckpointDamaged: the file is damaged; it was moved aside.
        """
        return await asyncio.to_thread(self._load)

    def _load(self) -> tuple[CheckpointData, bool]:
        try:
            data = read(self.file)
        except CheckpointDamaged as error:
            self._move_aside()
            error.registered = self._synced_resources()
            raise
        if data is None:
            return CheckpointData(), True
        return data, self._is_current_boot()

    async def save(self) -> None:
        """Write the current state, unless it is stored already.

        :raises OSError: the file cannot be written.
        """
        self._requested += 1
        request = self._requested
        async with self._lock:
            if self._written >= request:
                return  # Another caller has written a later state.
            request = self._requested
            data = self._snapshot()
            await asyncio.to_thread(self._save, data)
            self._written, self.unsynced = request, True

    async def sync(self) -> None:
        """Wait until the last checkpoint is on disk.

        :raises OSError: it cannot be written.
        """
        async with self._lock:
            if self.unsynced:
                await asyncio.to_thread(self._sync)
                self.unsynced = False

    def _save(self, data: CheckpointData) -> None:
        text, checksum = self._encoder.encode(data)
        if text == self._text and self.file.exists():
            return
        write(self.file, text)
        self._text = text
        self._checksum = checksum

    def _sync(self) -> None:
        with self.file.open("rb") as stream:
            os.fsync(stream.fileno())
        aside = self.file.with_name(f"{SYNCED_FILE}.new")
        aside.unlink(missing_ok=True)
        os.link(self.file, aside)
        aside.replace(self.file.with_name(SYNCED_FILE))
        # While it is older than the checkpoint, the time of the checkpoint is compared with that of the boot.
        write(self._boot_file, json.dumps({"bootID": self._boot_id(), "checksum": self._checksum}))

    def _synced_resources(self) -> Mapping[str, Sequence[str]]:
        try:
            data = read(self.file.with_name(SYNCED_FILE))
        except CheckpointDamaged:
            return {}
        return data.registered if data is not None else {}

    def _is_current_boot(self) -> bool:
        """Return whether the checkpoint was written since the host booted.

        The kubelet records no boot ID; its files are compared with the time of the boot, as is a file that was written
        within the last second before the host crashed.
        """
        try:
            recorded = json.loads(self._boot_file.read_text(encoding="utf-8"))
            if recorded["bootID"] == self._boot_id():
                return True
            content = json.loads(self.file.read_text(encoding="utf-8"))
            if recorded["checksum"] == content["Checksum"]:
                return False
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        try:
            lines = (self._root / "proc/stat").read_text(encoding="ascii").splitlines()
            booted = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
            return self.file.stat().st_mtime >= booted
        except (OSError, ValueError, StopIteration):
            return True

    def _boot_id(self) -> str:
        try:
            return (self._root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def _move_aside(self) -> None:
        aside = self.file.with_name(f"{FILE}.damaged")
        try:
            self.file.replace(aside)
        except OSError as error:
            _log.error("Failed to move damaged checkpoint aside", extra={"path": str(self.file), "err": str(error)})
        else:
            _log.error("Moved damaged checkpoint aside", extra={"path": str(aside)})
