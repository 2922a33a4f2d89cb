"""User and groups of a container, resolved with the files of its image."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime import paths
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument

MAX_FILE_BYTES = 1 << 20
MAX_ID = (1 << 31) - 1


class User(Struct, frozen=True):
    """IDs of a process."""

    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    home: str = "/"


def resolve_user(
    rootfs: Path, requested: str, group: int | None = None, extra: tuple[int, ...] = (), *, strict: bool = False
) -> User:
    """Return the user *requested*, ``NAME|UID[:GROUP|GID]``, or root if it is empty.

    :param group: separately requested group, which takes precedence.
    :param extra: requested supplementary groups.
    :param strict: ignore the supplementary groups of the user in the image.
    :raises InvalidArgument: the image has no such user or group.
    """
    name, _, group_name = requested.partition(":")
    users = _read(rootfs, "/etc/passwd", 7)
    groups = _read(rootfs, "/etc/group", 4)
    number = parse_id(name) if name.isdecimal() else 0 if not name else None
    entry = next((e for e in users if (e[0] == name if number is None else e[2] == str(number))), None)
    if entry is None and number is None:
        raise InvalidArgument(f'no user "{name}" in the image')
    uid = int(entry[2]) if entry else number or 0
    gid = int(entry[3]) if entry else 0
    member = {int(e[2]) for e in groups if entry and not strict and entry[0] in e[3].split(",")}
    if group is not None:
        gid = group
    elif group_name:
        gid = _group(groups, group_name)
    home = entry[5] if entry and entry[5] else "/"
    return User(uid, gid, tuple(sorted({*member, *extra} | {gid})), home)


def _group(groups: list[list[str]], name: str) -> int:
    if name.isdecimal():
        return parse_id(name)
    for entry in groups:
        if entry[0] == name:
            return int(entry[2])
    raise InvalidArgument(f'no group "{name}" in the image')


def _read(rootfs: Path, path: str, fields: int) -> list[list[str]]:
    """Return the valid lines of a user or group file; empty if the file does not exist."""
    try:
        # Not blocking, because the file of the image could be a pipe.
        descriptor = os.open(paths.resolve_in_root(rootfs, path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return []
            text = file.read(MAX_FILE_BYTES).decode(errors="replace")
    except OSError:
        return []
    entries = [line.split(":") for line in text.splitlines() if not line.startswith("#")]
    number = 3 if fields == 7 else 2
    return [e for e in entries if len(e) >= fields and is_valid_id(e[2]) and is_valid_id(e[number])]


def is_valid_id(text: str) -> bool:
    """Return whether *text* is a user or group ID; larger ones would wrap around, up to that of root."""
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= MAX_ID


def parse_id(text: str) -> int:
    """Return a user or group ID.

    :raises InvalidArgument: it is out of range.
    """
    if not is_valid_id(text):
        raise InvalidArgument(f"invalid user or group ID {text[:80]}: must be at most {MAX_ID}")
    return int(text)
