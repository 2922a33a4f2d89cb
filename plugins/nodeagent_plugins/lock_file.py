"""One agent at a time on a machine: ``--lock-file``, given up on demand with ``--exit-on-lock-contention``."""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.context import ConfigContext
from nodeagent.errors import ConfigError, Problem

_log = logging.getLogger(__name__)

_IN_OPEN = 0x20
_IN_DELETE_SELF = 0x400


@hookimpl(tryfirst=True)
def nodeagent_configure(context: ConfigContext) -> None:
    """Wait for the lock before anything else is prepared.

    :raises ConfigError: the file cannot be opened, locked or watched.
    """
    settings = context.settings
    if not settings.lock_file:
        return
    file = Path(settings.lock_file)
    try:
        lock = acquire(file)
        context.cleanup.callback(os.close, lock)
        if settings.exit_on_lock_contention:
            context.tasks.start(exit_on_contention(file, stop_agent), "lock file")
    except OSError as error:
        raise ConfigError([Problem("--lock-file", "", settings.lock_file, f"cannot be used: {error}")]) from error


def acquire(file: Path) -> int:
    """Wait until no other process holds the lock; return the descriptor that holds it as long as it is open.

    A signal ends the process while it waits, as at any time before it has started anything.

    :raises OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("Another process holds the lock, waiting for it", extra={"file": str(file)})
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def stop_agent() -> None:
    """End the agent as a service manager would; pods go on."""
    os.kill(os.getpid(), signal.SIGTERM)


async def exit_on_contention(file: Path, stop: Callable[[], None]) -> None:
    """Call *stop* once another process opens the file, or when it is gone.

    :raises OSError: the file cannot be watched.
    """
    watch = _watch(file)
    loop, seen = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(watch, seen.set)
        await seen.wait()
    finally:
        loop.remove_reader(watch)
        os.close(watch)
    _log.warning("Another process wants the lock, the agent stops", extra={"file": str(file)})
    stop()


def _watch(file: Path) -> int:
    """Return an inotify descriptor that becomes readable when the file is opened or removed."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(file))
    if library.inotify_add_watch(descriptor, os.fsencode(file), _IN_OPEN | _IN_DELETE_SELF) < 0:
        code = ctypes.get_errno()
        os.close(descriptor)
        raise OSError(code, os.strerror(code), str(file))
    return descriptor
