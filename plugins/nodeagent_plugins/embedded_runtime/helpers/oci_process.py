"""Last steps of a container's process: drop privileges and execute the command."""

from __future__ import annotations

import errno
import fcntl  # now: once in the container, there may be nothing to import from
import os
import signal
from typing import Any

from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES

_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_TIOCSCTTY = 0x540E


def become(process: dict[str, Any]) -> None:
    """Execute the command of *process*; returns only by an error.

    :raises OSError: a privilege cannot be dropped, or the command cannot be executed.
    """
    _adjust_oom_score(process.get("oomScoreAdj"))
    user, sets = process["user"], process["capabilities"]
    bounding = _mask(sets["bounding"])
    for number in range(len(NAMES)):
        if not bounding >> number & 1:
            try:
                syscalls.prctl(syscalls.PR_CAPBSET_DROP, number)
            except OSError as error:
                if error.errno != errno.EINVAL:  # Not supported by this kernel.
                    raise
    syscalls.prctl(syscalls.PR_SET_KEEPCAPS, 1)
    try:
        os.setgroups(user.get("additionalGids") or [])
    except PermissionError:  # A user namespace with one user cannot set groups.
        with open("/proc/self/setgroups") as file:
            if file.read().strip() != "deny":
                raise
    os.setresgid(user["gid"], user["gid"], user["gid"])
    os.setresuid(user["uid"], user["uid"], user["uid"])
    os.umask(0o022)
    cwd = process.get("cwd") or "/"
    try:
        os.chdir(cwd)
    except FileNotFoundError:
        os.makedirs(cwd, exist_ok=True)
        os.chdir(cwd)
    _check_directory(cwd)
    syscalls.set_capabilities(_mask(sets["effective"]), _mask(sets["permitted"]), _mask(sets["inheritable"]))
    syscalls.prctl(syscalls.PR_CAP_AMBIENT, _AMBIENT_CLEAR)
    for name in sets.get("ambient") or ():
        syscalls.prctl(syscalls.PR_CAP_AMBIENT, _AMBIENT_RAISE, NAMES.index(name.removeprefix("CAP_")))
    if process.get("noNewPrivileges"):
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):  # Ignored by Python and the parent process.
        signal.signal(number, signal.SIG_DFL)
    _execute(process["args"], process.get("env") or [])


def _check_directory(requested: str) -> None:
    """Reject a working directory outside of the root, which a descriptor of the node could be.

    :raises OSError: the directory is rejected.
    """
    try:
        actual = os.getcwd()
    except FileNotFoundError:
        actual = ""
    if not actual.startswith("/"):
        raise OSError(errno.EPERM, f"working directory {requested} is outside of the container")


def become_mapped_root(process: dict[str, Any]) -> None:
    """Become root of the user namespace that this process has joined.

    The OOM score is set first, because the process loses access to its own files in ``/proc``.
    """
    _adjust_oom_score(process.get("oomScoreAdj"))
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def take_terminal(descriptor: int) -> None:
    """Make a terminal the controlling one, and the three standard streams."""
    fcntl.ioctl(descriptor, _TIOCSCTTY, 0)
    for stream in (0, 1, 2):
        os.dup2(descriptor, stream)


def _execute(args: list[str], env: list[str]) -> None:
    environment = {name: value for name, _, value in (entry.partition("=") for entry in env)}
    if "/" in args[0]:
        try:
            os.execve(args[0], args, environment)  # noqa: S606
        except OSError as error:
            raise OSError(error.errno, f'exec: "{args[0]}": {(error.strerror or "").lower()}') from error
    denied = None
    for directory in environment.get("PATH", "/usr/bin:/bin").split(":"):
        try:
            os.execve(f"{directory or '.'}/{args[0]}", args, environment)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            denied = error
    if denied is not None:
        raise OSError(denied.errno, f'exec: "{args[0]}": {(denied.strerror or "").lower()}')
    raise OSError(errno.ENOENT, f'exec: "{args[0]}": executable file not found in $PATH')


def _adjust_oom_score(requested: int | None) -> None:
    if requested is not None:
        try:
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write(str(requested))
        except PermissionError:  # A lower score requires privileges; it remains unchanged.
            return


def _mask(names: list[str]) -> int:
    return sum(1 << NAMES.index(name.removeprefix("CAP_")) for name in names)
