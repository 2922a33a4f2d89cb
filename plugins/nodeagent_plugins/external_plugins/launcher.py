"""Launcher of a plugin's executable: it restricts its own process and then executes the plugin.

A separate process does this, because code between fork and exec in the agent could deadlock with its threads. The only
argument is a JSON object; an error is printed and ends the process with exit code 127.
"""

import ctypes
import json
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_UMASK = 0o077
_MAX_INTERPRETERS = 4
"""Longest chain of scripts and their interpreters."""


def launch(request: dict) -> None:  # type: ignore[type-arg]
    """Join the cgroups, give up privileges and execute ``command``.

    :param request: ``parent`` process, ``cgroups`` as paths of ``cgroup.procs`` files, ``uid`` and ``gid`` or null,
        ``directory`` and ``command``.
    """
    for path in request["cgroups"]:
        with open(path, "w") as file:  # noqa: PTH123  pathlib doubles the start time
            file.write("0")
    os.umask(_UMASK)
    os.chdir(request["directory"])
    if request["uid"] is not None:
        os.setgroups([])
        os.setresgid(request["gid"], request["gid"], request["gid"])
        os.setresuid(request["uid"], request["uid"], request["uid"])
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    # After the change of the user, which resets it.
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_PDEATHSIG, int(signal.SIGKILL))):
        if prctl(option, value, 0, 0, 0):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if os.getppid() != request["parent"]:
        sys.exit(0)  # The agent has exited in the meantime.
    command = request["command"]
    try:
        os.execvp(command[0], command)  # noqa: S606  no shell
    except PermissionError as error:
        raise OSError(f"{error.strerror}: {obstacle(command[0]) or command[0]}") from error


def obstacle(path: str) -> str:
    """Return what prevents the user of this process from executing *path*, empty if unknown."""
    for _ in range(_MAX_INTERPRETERS):
        for file in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):  # noqa: PTH100
            parts = file.split("/")
            for end in range(2, len(parts)):
                directory = "/".join(parts[:end])
                if not os.access(directory, os.X_OK):
                    return f"user {os.getuid()} cannot access directory {directory}, which contains {path}"
        if not os.access(path, os.X_OK):
            return f"user {os.getuid()} cannot execute {path}"
        try:
            with open(path, "rb") as script:  # noqa: PTH123
                line = script.readline(256)
        except OSError:
            return f"user {os.getuid()} cannot read {path}"
        if not line.startswith(b"#!"):
            return ""
        path = line[2:].split()[0].decode(errors="replace")
    return ""


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    try:
        launch(arguments)
    except OSError as error:
        print(f"failed to start {arguments['command'][0]}: {error}", file=sys.stderr)
        sys.exit(127)
