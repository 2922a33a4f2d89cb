"""Takes profiles of this process: where CPU time goes, what holds memory, what tasks and threads are at."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from types import FrameType

from nodeagent.base.aio import Clock
from nodeagent_plugins.routes_debug.profile import Frame, Stack, frame_of, stack_of

SAMPLES_PER_SECOND = 100
HEAP_FRAMES = 16


class Busy(Exception):
    """A profile of that kind is being taken already."""


class _State:
    cpu = False
    heap = False


async def cpu_stacks(seconds: float, clock: Clock) -> Counter[Stack]:
    """Count the stacks of the event loop's thread, a sample each 10 ms of the process's CPU time.

    An agent that does nothing gives nothing.

    :raises Busy: one is under way.
    """
    if _State.cpu:
        raise Busy("a CPU profile is being taken already")
    found: Counter[Stack] = Counter()

    def sample(_number: int, frame: FrameType | None) -> None:
        found[stack_of(frame)] += 1

    _State.cpu = True
    before = signal.signal(signal.SIGPROF, sample)
    signal.siginterrupt(signal.SIGPROF, False)  # calls of other threads go on undisturbed
    signal.setitimer(signal.ITIMER_PROF, 1 / SAMPLES_PER_SECOND, 1 / SAMPLES_PER_SECOND)
    try:
        await clock.sleep(seconds)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before if before is not None else signal.SIG_DFL)
        _State.cpu = False
    return found


async def heap_stacks(seconds: float, clock: Clock) -> dict[Stack, Sequence[int]]:
    """Return objects and bytes by where they were allocated.

    With *seconds*, what is allocated during that time and still held; tracing is on for so long. Without, what the
    tracing that was on before (``PYTHONTRACEMALLOC``) knows.

    :raises Busy: one is under way.
    """
    if _State.heap:
        raise Busy("a heap profile is being taken already")
    _State.heap = True
    ours = not tracemalloc.is_tracing()
    try:
        if ours:
            tracemalloc.start(HEAP_FRAMES)
        if seconds:
            await clock.sleep(seconds)
        snapshot = await asyncio.to_thread(tracemalloc.take_snapshot)
        return await asyncio.to_thread(_grouped, snapshot)
    finally:
        if ours:
            tracemalloc.stop()
        _State.heap = False


def _grouped(snapshot: tracemalloc.Snapshot) -> dict[Stack, Sequence[int]]:
    found: dict[Stack, Sequence[int]] = {}
    for statistic in snapshot.statistics("traceback"):
        frames = tuple(Frame(f"{f.filename}:{f.lineno}", f.filename, f.lineno) for f in reversed(statistic.traceback))
        found[frames] = (statistic.count, statistic.size)
    return found


def task_stacks() -> dict[str, Stack]:
    """Return what each task waits at, by its name; names that occur twice are numbered."""
    found: dict[str, Stack] = {}
    for task in asyncio.all_tasks():
        frames = _awaited(task)
        name, number = task.get_name(), 1
        while name in found:
            number += 1
            name = f"{task.get_name()} ({number})"
        found[name] = frames
    return dict(sorted(found.items()))


def _awaited(task: asyncio.Task[object]) -> Stack:
    """Return the chain of coroutines of a task, the innermost first; ``Task.get_stack`` shows only the outermost."""
    frames: list[Frame] = []
    waiting: object = task.get_coro()
    while waiting is not None and len(frames) < 64:
        code = getattr(waiting, "cr_code", None) or getattr(waiting, "gi_code", None)
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if code is None:
            break
        frames.append(frame_of(code, frame.f_lineno if frame is not None else None))
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return tuple(reversed(frames))


def thread_stacks() -> dict[str, Stack]:
    """Return what each thread of Python is at, by its name."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {f"{names.get(ident, 'foreign')} ({ident})": stack_of(frame) for ident, frame in _frames().items()}


def _frames() -> dict[int, FrameType]:
    return sys._current_frames()
