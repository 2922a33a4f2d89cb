"""Pairs in files: each renewal is a new one, and a link leads to the one in force."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from secrets import token_hex

from nodeagent.base.tls import write_private
from nodeagent.contracts.certificates import current_pair


class PairStore:
    """The pairs of one name in a directory: ``<name>-<date>.pem``, certificate first, then key."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self.current = current_pair(directory, name)
        self.pending_key = directory / f"{name}.key.tmp"
        """The key of a request that nobody has answered yet, so that a restart asks with the same."""

    def read(self) -> bytes | None:
        """Return the pair in force, ``None`` when there is none. Blocks."""
        try:
            return self.current.read_bytes()
        except OSError:
            return None

    def put(self, pair: bytes, at: datetime) -> Path:
        """Write *pair*, readable by the owner alone, and put it in force at once. Blocks.

        :raises OSError: the directory cannot be written.
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
        """Return the key of a request under way, empty without one. Blocks."""
        try:
            return self.pending_key.read_text(encoding="ascii")
        except (OSError, ValueError):
            return ""

    def keep_pending_key(self, key: str) -> None:
        """Keep *key* until its request is answered; an empty one forgets it. Blocks."""
        if key:
            write_private(self.pending_key, key.encode())
        else:
            self.pending_key.unlink(missing_ok=True)
