"""CPU, heap, task and thread profiles of this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from nodeagent.base.aio import Clock
from nodeagent.base.profiling.encoding import Frame, Stack, frame_of, stack_of

if TYPE_CHECKING:
    import tracemalloc

SAMPLES_PER_SECOND = 100
HEAP_FRAMES = 16
_LEAST_NANOSECONDS = 100_000
_NATIVE: Stack = (Frame("threads without Python", "", 0),)


class Busy(Exception):
    """A profile of the same kind is in progress."""


class _State:
    cpu = False
    heap = False


async def cpu_stacks(seconds: float, clock: Clock) -> dict[Stack, Sequence[int]]:
    """Return samples and nanoseconds of CPU time by stack, of all threads.

    A sample is taken for every 10 ms of the process's CPU time. The time that each thread consumed since the previous
    sample is attributed to its current stack, so an idle process yields no samples.

    :raises Busy: a CPU profile is in progress.
    """
    if _State.cpu:
        raise Busy("a CPU profile is in progress")
    samples_by_stack: dict[Stack, Sequence[int]] = {}
    used = _CpuTime()

    def sample(_number: int, interrupted: FrameType | None) -> None:
        frames = _frames() | ({threading.get_ident(): interrupted} if interrupted is not None else {})
        for ident, nanoseconds in used.since_last(frames).items():
            stack = stack_of(frames[ident]) if ident in frames else _NATIVE
            count, total = samples_by_stack.get(stack, (0, 0))
            samples_by_stack[stack] = count + 1, total + nanoseconds

    _State.cpu = True
    before = signal.signal(signal.SIGPROF, sample)
    signal.siginterrupt(signal.SIGPROF, False)  # System calls are restarted, not interrupted.
    signal.setitimer(signal.ITIMER_PROF, 1 / SAMPLES_PER_SECOND, 1 / SAMPLES_PER_SECOND)
    try:
        await clock.sleep(seconds)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before if before is not None else signal.SIG_DFL)
        _State.cpu = False
    return samples_by_stack


class _CpuTime:
    """CPU time of each thread; key 0 stands for threads without Python frames and for exited threads."""

    def __init__(self) -> None:
        self._process = time.process_time_ns()
        self._threads = self._read(_frames())

    def since_last(self, running: Iterable[int]) -> dict[int, int]:
        """Return nanoseconds by thread identifier, without threads below the measurable minimum."""
        process, threads = time.process_time_ns(), self._read(running)
        used = {ident: now - self._threads.get(ident, 0) for ident, now in threads.items()}
        used[0] = process - self._process - sum(used.values())
        self._process, self._threads = process, threads
        return {ident: amount for ident, amount in used.items() if amount >= _LEAST_NANOSECONDS}

    def _read(self, running: Iterable[int]) -> dict[int, int]:
        # A listed thread has not exited: for that it would need the interpreter lock, which is held here.
        return {ident: time.clock_gettime_ns(time.pthread_getcpuclockid(ident)) for ident in running}


async def heap_stacks(seconds: float, clock: Clock) -> dict[Stack, Sequence[int]]:
    """Return number and bytes of objects by allocation stack.

    With *seconds*, the allocations of that time that are still referenced; tracing is enabled for as long. Without,
    the allocations recorded by tracing that was enabled before (``PYTHONTRACEMALLOC``).

    :raises Busy: a heap profile is in progress.
    """
    if _State.heap:
        raise Busy("a heap profile is in progress")
    _State.heap = True
    try:
        snapshot = await _traced(seconds, clock)
        return await asyncio.to_thread(_grouped, snapshot)
    finally:
        _State.heap = False


async def _traced(seconds: float, clock: Clock) -> tracemalloc.Snapshot:
    """Return a snapshot of the allocations; tracing, which slows every allocation down, ends before it is evaluated."""
    import tracemalloc  # Deferred: for profiles only.

    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start(HEAP_FRAMES)
    try:
        if seconds:
            await clock.sleep(seconds)
        return await asyncio.to_thread(tracemalloc.take_snapshot)
    finally:
        if ours:
            tracemalloc.stop()


def object_stacks(*, collect: bool) -> dict[Stack, Sequence[int]]:
    """Return number and bytes of the objects that the garbage collector tracks, by module and type; blocks.

    Objects that reference no other object, such as strings and numbers, are not tracked.

    :param collect: run a collection first.
    """
    if collect:
        gc.collect()
    counts: Counter[type] = Counter()
    sizes: Counter[type] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        counts[kind] += 1
        with contextlib.suppress(Exception):  # A type may implement its size itself, and fail.
            sizes[kind] += sys.getsizeof(each)
    samples_by_stack: dict[Stack, Sequence[int]] = {}
    for kind, count in counts.items():
        stack = Frame(f"{kind.__module__}.{kind.__qualname__}", "", 0), Frame(str(kind.__module__), "", 0)
        before_count, before_size = samples_by_stack.get(stack, (0, 0))
        samples_by_stack[stack] = before_count + count, before_size + sizes[kind]
    return samples_by_stack


def _grouped(snapshot: tracemalloc.Snapshot) -> dict[Stack, Sequence[int]]:
    samples_by_stack: dict[Stack, Sequence[int]] = {}
    for statistic in snapshot.statistics("traceback"):
        frames = tuple(Frame(f"{f.filename}:{f.lineno}", f.filename, f.lineno) for f in reversed(statistic.traceback))
        samples_by_stack[frames] = (statistic.count, statistic.size)
    return samples_by_stack


def task_stacks() -> dict[str, Stack]:
    """Return the stack of each task by its name; duplicate names are numbered."""
    samples_by_stack: dict[str, Stack] = {}
    for task in asyncio.all_tasks():
        frames = _awaited(task)
        name, number = task.get_name(), 1
        while name in samples_by_stack:
            number += 1
            name = f"{task.get_name()} ({number})"
        samples_by_stack[name] = frames
    return dict(sorted(samples_by_stack.items()))


def _awaited(task: asyncio.Task[object]) -> Stack:
    """Return the chain of coroutines of a task, innermost first; ``Task.get_stack`` returns only the outermost."""
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
    """Return the stack of each Python thread by its name."""
    names = thread_names()
    return {f"{names.get(ident, 'unmanaged')} ({ident})": stack_of(frame) for ident, frame in _frames().items()}


def thread_names() -> dict[int, str]:
    """Return thread names by identifier."""
    return {thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None}


def _frames() -> dict[int, FrameType]:
    return sys._current_frames()
