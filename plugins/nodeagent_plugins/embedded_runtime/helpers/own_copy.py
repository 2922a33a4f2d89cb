"""Execution of a helper from an immutable copy of the interpreter in memory: ``own_copy.py HELPER ARGUMENT…``.

The first process of a container can execute or open ``/proc/self/exe``, which is the interpreter until the command of
the container replaces it. A copy that cannot be changed keeps the executable of the node out of reach.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import sys

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE


def main() -> None:
    """Run the helper; its imports, which cost most of the start, only follow in the copy."""
    _ensure()
    importlib.import_module(f"{__package__}.{sys.argv.pop(1)}").main()


def _ensure() -> None:
    """Execute this process again from a copy, unless it is one.

    :raises OSError: the kernel does not permit it.
    """
    with open("/proc/self/exe", "rb") as executable:
        if _is_immutable(executable.fileno()):
            return
        copy = os.memfd_create("oci", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        size = os.fstat(executable.fileno()).st_size
        done = 0
        while done < size:
            done += os.sendfile(copy, executable.fileno(), done, size - done)
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, _SEALS)
    environment = dict(os.environ)
    if library := _shared_library():  # Found relative to the executable.
        paths = (os.path.dirname(library), environment.get("LD_LIBRARY_PATH", ""))
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
    os.execve(copy, sys.orig_argv, environment)  # noqa: S606


def _is_immutable(descriptor: int) -> bool:
    try:
        return fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & _SEALS == _SEALS
    except OSError:
        return False


def _shared_library() -> str:
    with open("/proc/self/maps", errors="replace") as maps:
        return next((line.split(None, 5)[5].strip() for line in maps if "/libpython3" in line), "")
