"""Identity of this server in leader election, which it keeps when it is started again after a crash."""

from __future__ import annotations

import fcntl
import os
import socket
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

LOCK = "server.lock"
"""Name of the lock file in the data directory."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = uuid.UUID("7a3f8d0e-5c0c-4a35-9a4e-6a2f6b0c8f11")


def holder_identity(data: Path, stack: AsyncExitStack) -> str:
    """Return the identity of the server with the data directory *data*; *stack* releases it.

    A process that has the same identity as an earlier one continues its lease without waiting for the end of its
    duration. The identity is derived from the running kernel and the lock file, which only one process holds, until it
    ends: two processes with the same identity never run at the same time, not even with a copy of the directory. If
    another process holds the lock, or the file cannot be locked, the identity is random.
    """
    host = socket.gethostname()
    descriptor = os.open(data / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        kernel = _BOOT_ID.read_text().strip()
    except OSError:
        return f"{host}_{uuid.uuid4()}"
    file = os.fstat(descriptor)
    return f"{host}_{uuid.uuid5(_NAMESPACE, f'{kernel}/{file.st_dev}/{file.st_ino}')}"
