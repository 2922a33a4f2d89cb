"""Static token file (spec: opt.token-auth-file): CSV with token, user name, UID, and groups in one quoted field."""

from __future__ import annotations

import csv
import hmac
import logging
import secrets
from pathlib import Path

from apiserver_stub.apimachinery.request import User

_log = logging.getLogger(__name__)


class TokenFileError(ValueError):
    """The token file cannot be read or is invalid."""


class TokenFile:
    """Tokens of a file, which is read once; they are stored as keyed digests, for lookups in constant time."""

    def __init__(self, path: Path) -> None:
        """Read *path*.

        :raises TokenFileError: it cannot be read, or a line has too few columns.
        """
        self._key = secrets.token_bytes(32)
        self._users: dict[bytes, User] = {}
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise TokenFileError(f"token file '{path}': {error}") from error
        for number, row in enumerate(csv.reader(text.splitlines()), 1):
            if not row:
                continue
            if len(row) < 3:
                raise TokenFileError(
                    f"token file '{path}' must have at least 3 columns (token, user name, user uid), found {len(row)}"
                )
            token, name, uid = row[0], row[1], row[2]
            if not token:
                _log.warning("empty token has been found in token file '%s', record number '%d'", path, number)
                continue
            digest = self._digest(token)
            if digest in self._users:
                _log.warning("duplicate token has been found in token file '%s', record number '%d'", path, number)
            groups = row[3].split(",") if len(row) > 3 else []
            self._users[digest] = User(name, uid, tuple(group.strip() for group in groups if group.strip()))

    async def user_of(self, token: str) -> User | None:
        """Return the user of *token*."""
        return self._users.get(self._digest(token))

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode(errors="surrogateescape"), "sha256")
