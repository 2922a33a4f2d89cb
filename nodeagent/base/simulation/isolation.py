"""Isolation of a simulation from the host: time, random numbers and threads."""

from __future__ import annotations

import errno
import itertools
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import SimulatedLoop


@contextmanager
def isolated(
    seed: object, loop: SimulatedLoop, clock: SimulatedClock, others: Sequence[tuple[object, str, object]] = ()
) -> Iterator[None]:
    """Replace the sources of time and random numbers of this process, and threads, until the end of the block.

    :param others: further attributes to replace: owner, name and value.
    """
    chance, tokens, state = random.Random(f"{seed}/entropy"), random.Random(f"{seed}/tokens"), random.getstate()
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
        (random.SystemRandom, "randbytes", lambda _, count: tokens.randbytes(count)),
        (threading.Thread, "start", lambda _: None),
        (threading.Thread, "join", lambda _thread, _seconds=None: None),
        *others,
    ]
    try:
        with ExitStack() as stack:
            for owner, name, value in replaced:
                stack.enter_context(patch.object(owner, name, value))
            stack.enter_context(_replaced_module("watchdog.observers.inotify", _unwatchable()))
            yield
    finally:
        random.setstate(state)


@contextmanager
def _replaced_module(name: str, module: ModuleType) -> Iterator[None]:
    """Replace a module until the end of the block. Others that are imported in the block stay imported."""
    original = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    finally:
        if original is None:
            del sys.modules[name]
        else:
            sys.modules[name] = original


def _unwatchable() -> ModuleType:
    """Return a replacement of watchdog's module, with which directories are polled instead of watched."""

    def fail() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    module = ModuleType("watchdog.observers.inotify")
    module.InotifyObserver = fail  # type: ignore[attr-defined]
    return module
