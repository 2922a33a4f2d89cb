"""Isolation of a simulation from the host: time, random numbers and threads."""

from __future__ import annotations

import errno
import itertools
import os
import random
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest.mock import patch

from nodeagent.base.aio import inotify
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import SimulatedLoop


@contextmanager
def isolated(
    seed: object, loop: SimulatedLoop, clock: SimulatedClock, others: Sequence[tuple[object, str, object]] = ()
) -> Iterator[None]:
    """Replace the sources of time and random numbers of this process, and threads, until the end of the block.

    :param others: further attributes to replace: owner, name and value.
    """
    chance, state = random.Random(f"{seed}/entropy"), random.getstate()
    random.seed(f"{seed}/random")
    calls = itertools.count()
    replaced: list[tuple[Any, str, Any]] = [
        (time, "monotonic", loop.time),
        (time, "time", lambda: clock.wall().timestamp()),
        (time, "time_ns", lambda: int(clock.wall().timestamp() * 1e9) + next(calls)),  # A real clock always advances.
        (time, "thread_time", lambda: 0.0),
        (time, "sleep", loop.stall),
        (os, "urandom", chance.randbytes),
        (uuid, "uuid4", lambda: uuid.UUID(bytes=chance.randbytes(16), version=4)),
        (random.SystemRandom, "random", lambda _: chance.random()),
        (random.SystemRandom, "getrandbits", lambda _, count: chance.getrandbits(count)),
        (threading.Thread, "start", lambda _: None),
        (threading.Thread, "join", lambda _thread, _seconds=None: None),
        (inotify, "Inotify", _no_instance),
        *others,
    ]
    try:
        with ExitStack() as stack:
            for owner, name, value in replaced:
                stack.enter_context(patch.object(owner, name, value))
            yield
    finally:
        random.setstate(state)


def _no_instance(_notify: object) -> NoReturn:
    """Fail as if the limit of inotify instances were reached: directories are polled instead of watched."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
