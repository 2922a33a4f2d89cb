"""Tokens from a CSV file (spec: opt.token-auth-file): token, user name, uid, and groups in one quoted field."""

from __future__ import annotations

import csv
import logging
from collections.abc import Sequence
from pathlib import Path

from apiserver_stub.request import User

_log = logging.getLogger(__name__)


class TokenFileError(ValueError):
    """The file cannot be read or is no token file."""


class TokenFile:
    """The tokens of one file, read once."""

    def __init__(self, path: Path) -> None:
        """Read *path*.

        :raises TokenFileError: it cannot be read, or a line has too few columns.
        """
        self._users: dict[str, User] = {}
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
            if token in self._users:
                _log.warning("duplicate token has been found in token file '%s', record number '%d'", path, number)
            groups = row[3].split(",") if len(row) > 3 else []
            self._users[token] = User(name, uid, tuple(group.strip() for group in groups if group.strip()))

    def authenticate(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the user of *token*; one from a file is good for every audience."""
        return self._users.get(token)
