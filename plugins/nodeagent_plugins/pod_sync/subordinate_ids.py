"""Subordinate IDs that the host assigns to the agent, from the command ``getsubids``."""

from __future__ import annotations

import pwd
import shutil
import subprocess

from nodeagent.base.structs import Struct
from nodeagent.errors import ConfigError, Problem

USER = "kubelet"
_COMMAND = "getsubids"
_SECONDS = 10.0


class IdRange(Struct, frozen=True):
    """A range of user and group IDs."""

    first: int
    count: int


def read_subordinate_ids() -> IdRange | None:
    """Return the range of user ``kubelet``; ``None`` without this user or without the command. Blocking.

    :raises ConfigError: the user does not have exactly one range, equal for users and groups.
    """
    command = shutil.which(_COMMAND)
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return None
    if command is None:
        return None
    users, groups = (_run([command, *option, USER]) for option in ([], ["-g"]))
    if users != groups:
        raise _problem(f"user IDs {users} and group IDs {groups} of {USER} differ")
    return users


def parse_range(output: str) -> IdRange:
    """Return the range in the output of the command: ``0: kubelet FIRST COUNT``.

    :raises ConfigError: the output is not one line in this format.
    """
    lines = output.splitlines()
    words = lines[0].split() if len(lines) == 1 else []
    if len(words) != 4 or words[:2] != ["0:", USER] or not all(word.isdecimal() for word in words[2:]):
        raise _problem(f"expected one range of {USER}, got {output!r:.200}")
    return IdRange(int(words[2]), int(words[3]))


def _run(command: list[str]) -> IdRange:
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise _problem(f"command failed: {error}") from error
    return parse_range(done.stdout)


def _problem(text: str) -> ConfigError:
    return ConfigError([Problem(_COMMAND, "", None, text)])
