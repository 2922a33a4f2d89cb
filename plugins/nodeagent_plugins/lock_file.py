"""Lock file that limits a host to one agent: ``--lock-file`` and ``--exit-on-lock-contention``."""

from __future__ import annotations

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


@hookimpl(tryfirst=True)
def nodeagent_configure(context: ConfigContext) -> None:
    """Acquire the lock before other components are created.

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
        raise ConfigError([Problem("--lock-file", "", settings.lock_file, f"failed to lock: {error}")]) from error


def acquire(file: Path) -> int:
    """Wait for the lock; return the descriptor that holds it until it is closed.

    A signal terminates the process while it waits.

    :raises OSError: the file cannot be opened or locked.
    """
    descriptor = os.open(file, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log.info("Waiting for lock held by another process", extra={"path": str(file)})
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def stop_agent() -> None:
    """Terminate the agent like a service manager; pods keep running."""
    os.kill(os.getpid(), signal.SIGTERM)


async def exit_on_contention(file: Path, stop: Callable[[], None]) -> None:
    """Call *stop* when another process opens the file, or when it is deleted.

    :raises OSError: the file cannot be watched.
    """
    from asyncinotify import Inotify, Mask

    with Inotify() as inotify:
        inotify.add_watch(file, Mask.OPEN | Mask.DELETE_SELF)
        await inotify.get()
    _log.warning("Lock requested by another process, shutting down", extra={"path": str(file)})
    stop()
