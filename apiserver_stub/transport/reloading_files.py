"""Objects that are built from files and rebuilt when the files change."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from nodeagent.base.file_signature import file_signatures
from nodeagent.base.logging import v_level

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0


class ReloadingFiles(ABC):
    """Reloads its files within seconds of a change; while the new content is invalid, the previous one is used.

    :param log_name: name of the files in the log.
    """

    reloaded: ClassVar[str] = "Loaded a new cert/key pair"
    """Log message after a reload."""

    def __init__(self, log_name: str, files: Iterable[Path]) -> None:
        self._log_name, self._files = log_name, tuple(files)
        self._stamps = file_signatures(self._files)  # before the files are read, so that no change is missed

    async def keep_current(self) -> None:
        """Reload changed files until cancelled."""
        while self._files:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Reload the files if they changed; return whether new content was applied. Reads the disk."""
        current = file_signatures(self._files)
        if current == self._stamps:
            return False
        self._stamps = current
        paths = ", ".join(map(str, self._files))
        try:
            self._apply()
        except (OSError, ValueError) as error:  # covers ssl.SSLError and TlsError
            fields = {"files": self._log_name, "path": paths, "err": error}
            _log.error("Failed to reload files, keeping the previous content", extra=fields)
            return False
        fields = {"files": self._log_name, "path": paths}
        _log.log(v_level(2), self.reloaded, extra=fields)  # wording: ok - class attributes
        return True

    @abstractmethod
    def _apply(self) -> None:
        """Read and apply the files; runs in a thread.

        :raises OSError: a file cannot be read.
        :raises ValueError: a file is invalid; the previous content is unchanged.
        """
