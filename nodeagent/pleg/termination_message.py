"""Read a container's termination message, falling back to the tail of its log."""

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
_STREAMS = ("stdout", "stderr")


async def with_message(container: RuntimeContainerStatus) -> RuntimeContainerStatus:
    """Return *container* with its termination message, if it has exited and has one."""
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
    text = _tail(message_path, MAX_MESSAGE_BYTES) if message_path else b""
    if not text and log_path:
        return _log_tail(log_path)
    return text.decode(errors="replace")


def _tail(path: str, limit: int) -> bytes:
    """Return the last *limit* bytes of a regular file; the file is under control of the container."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return b""
        return os.pread(fd, limit, max(0, info.st_size - limit))
    except OSError:
        return b""
    finally:
        os.close(fd)


def _log_tail(path: str) -> str:
    """Return the last lines of a log in CRI format (``time stream tag text``), without the leading columns."""
    raw = _tail(path, 4 * MAX_LOG_BYTES + 80 * MAX_LOG_LINES).decode(errors="replace")
    text = "".join(map(_content, raw.removesuffix("\n").split("\n")[-MAX_LOG_LINES:]))
    return text.removesuffix("\n").encode()[-MAX_LOG_BYTES:].decode(errors="ignore")


def _content(line: str) -> str:
    columns = line.split(" ", 3)
    if len(columns) < 4 or columns[1] not in _STREAMS:
        return f"{line}\n"  # The end of a line whose start was not read.
    return columns[3] if columns[2].startswith("P") else f"{columns[3]}\n"
