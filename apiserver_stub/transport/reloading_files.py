"""What is made from files and follows their changes."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path

from nodeagent.base.file_signature import file_signatures

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0


class ReloadingFiles(ABC):
    """Takes its files up again soon after they change; those before stay in use while new ones are no good.

    :param what: what the log calls the files.
    """

    def __init__(self, what: str, files: Iterable[Path]) -> None:
        self._what, self._files = what, tuple(files)
        self._stamps = file_signatures(self._files)  # before they are read: a change from then on counts

    async def keep_current(self) -> None:
        """Take up changed files until cancelled."""
        while self._files:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Take up the files if they changed; return whether they are in use now. Reads the disk."""
        found = file_signatures(self._files)
        if found == self._stamps:
            return False
        self._stamps = found
        names = ", ".join(map(str, self._files))
        try:
            self._take_up()
        except (OSError, ValueError) as error:  # covers ssl.SSLError and TlsError
            _log.error("Changed files are not taken up", extra={"what": self._what, "files": names, "err": error})
            return False
        _log.info("Took up changed files", extra={"what": self._what, "files": names})
        return True

    @abstractmethod
    def _take_up(self) -> None:
        """Use what the files hold now; runs in a thread.

        :raises OSError: a file cannot be read.
        :raises ValueError: a file is no good; nothing has changed then.
        """
