"""One agent at a time on a machine: ``--lock-file``, given up on demand with ``--exit-on-lock-contention``."""

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
    from asyncinotify import Inotify, Mask

    with Inotify() as inotify:
        inotify.add_watch(file, Mask.OPEN | Mask.DELETE_SELF)
        await inotify.get()
    _log.warning("Another process wants the lock, the agent stops", extra={"file": str(file)})
    stop()
