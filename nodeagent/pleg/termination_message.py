"""The last words of a container: its termination message file, or the end of its log."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import replace

from nodeagent.contracts.runtime import (
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
    ContainerState,
    RuntimeContainerStatus,
)

MAX_MESSAGE_BYTES = 4096
MAX_LOG_BYTES = 2048
MAX_LOG_LINES = 80
_FALL_BACK = "FallbackToLogsOnError"


async def with_message(container: RuntimeContainerStatus) -> RuntimeContainerStatus:
    """Return *container* with its termination message, if it has exited and left one."""
    if container.state is not ContainerState.EXITED:
        return container
    path = container.annotations.get(ANNOTATION_MESSAGE_PATH, "")
    host_path = next((mount.host_path for mount in container.mounts if mount.container_path == path), "")
    from_log = container.annotations.get(ANNOTATION_MESSAGE_POLICY) == _FALL_BACK and container.exit_code != 0
    if not host_path and not from_log:
        return container
    message = await asyncio.to_thread(_read, host_path, container.log_path if from_log else "")
    return replace(container, message=message) if message else container


def _read(message_path: str, log_path: str) -> str:
    text = _read_file(message_path, MAX_MESSAGE_BYTES) if message_path else b""
    if not text.strip() and log_path:
        return _log_tail(log_path)
    return text.decode(errors="replace")


def _read_file(path: str, limit: int, *, from_end: bool = False) -> bytes:
    """Return at most *limit* bytes of a regular file; the container may have put anything there."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return b""
        return os.pread(fd, limit, max(0, info.st_size - limit) if from_end else 0)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _log_tail(path: str) -> str:
    """Return the last lines of a log in the runtime's format (``time stream tag text``), without its columns."""
    raw = _read_file(path, 4 * MAX_LOG_BYTES + 80 * MAX_LOG_LINES, from_end=True)
    lines = raw.decode(errors="replace").splitlines()[-MAX_LOG_LINES:]
    text = "\n".join(columns[3] if len(columns := line.split(" ", 3)) == 4 else "" for line in lines)
    return text.encode()[-MAX_LOG_BYTES:].decode(errors="ignore")
