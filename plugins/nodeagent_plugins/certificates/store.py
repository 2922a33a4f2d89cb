"""Certificate and key files: each renewal writes a new file, and a link refers to the current one."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from secrets import token_hex

from nodeagent.base.atomic_file import write_private
from nodeagent.contracts.certificates import current_pair


class PairStore:
    """Files of one name in a directory: ``<name>-<date>.pem`` with certificate and key."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.current = current_pair(directory, name)
        self.pending_key = directory / f"{name}.key.tmp"
        """Key of a pending request, which is reused after a restart."""

    def read(self) -> bytes | None:
        """Return the current pair, ``None`` if there is none. Blocks."""
        try:
            return self.current.read_bytes()
        except OSError:
            return None

    def put(self, pair: bytes, at: datetime) -> Path:
        """Write *pair*, readable only by the owner, and make it current. Blocks.

        :raises OSError: the file cannot be written.
        """
        file = self._directory / f"{self._name}-{at:%Y-%m-%d-%H-%M-%S}.pem"
        write_private(file, pair)
        aside = self._directory / f".{self._name}-{token_hex(4)}"
        aside.symlink_to(file.name)
        try:
            aside.replace(self.current)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        return file

    def read_pending_key(self) -> str:
        """Return the key of the pending request, empty if there is none. Blocks."""
        try:
            return self.pending_key.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""

    def keep_pending_key(self, key: str) -> None:
        """Store the *key* of a pending request; an empty one deletes it. Blocks."""
        if key:
            write_private(self.pending_key, key.encode())
        else:
            self.pending_key.unlink(missing_ok=True)
