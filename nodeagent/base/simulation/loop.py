"""Event loop with virtual time: when no callback is ready, the time advances to the next timer.

It has neither a selector nor threads. Functions for other threads run in the loop after a delay. Callbacks run in the
order in which they were scheduled, which asyncio guarantees, so the seed changes the order of events through delays.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import heapq
import itertools
import random
import sys
import warnings
from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar
from typing import Any
from unittest.mock import patch

MAX_STEPS_AT_ONE_TIME = 200_000
"""Callbacks without an advance of time after which the loop is considered to be busy forever."""
PROCESS: ContextVar[int] = ContextVar("simulated process", default=0)
"""Number of the process that a callback belongs to; 0 is the simulation itself."""
_MAX_THREAD_SECONDS = 0.02
_SLOW_THREADS = 0.01


class Deadlock(Exception):
    """No callback is ready and no timer is pending."""


class BusyLoop(Exception):
    """Callbacks run forever without an advance of time."""


class ProcessCrashed(BaseException):
    """Raised in the code of a process that crashes in a file operation."""


class SimulatedFuture(asyncio.Future[Any]):
    """Future whose position in a set does not depend on its address."""

    def __init__(self, number: int, process: int, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._number = number
        self.process = process

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedTask(asyncio.Task[Any]):
    """Task whose position in a set does not depend on its address."""

    def __init__(self, coroutine: Any, number: int, process: int, **options: Any) -> None:
        self._number = number
        self.process = process
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class SimulatedLoop(asyncio.BaseEventLoop):
    """Event loop of one simulation.

    :param seed: determines the delays of functions that are executed in threads.
    """

    def __init__(self, seed: object) -> None:
        super().__init__()
        self.random = random.Random(f"{seed}/threads")
        self.steps = 0
        """Number of callbacks that were executed."""
        self.crash_at: int | None = None
        """Number of callbacks of processes after which :attr:`on_crash` is called."""
        self.on_crash: Callable[[], None] = lambda: None
        self.on_unhandled: Callable[[str], None] = lambda text: None
        """Called with each exception of a callback or a task that nothing handles."""
        self.current_process = 0
        """Process of the last callback."""
        self.crashed = False
        """A process crashed in a file operation or a request; :attr:`on_crash` is called after the current callback."""
        self.dead: set[int] = set()
        """Processes whose callbacks are dropped."""
        self._paused: dict[int, list[asyncio.Handle]] = {}
        """Callbacks of paused processes, in their order."""
        self.thread_factor = 1.0
        """Multiplies the delays of functions in threads."""
        self._now = 0.0
        self._numbers = itertools.count()
        self._steps_at_now = 0
        self._timer_cancelled_count = 0
        self._tasks: dict[int, dict[SimulatedTask, None]] = {}
        self._dropping = False

    # --- time and callbacks -----------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def stall(self, seconds: float) -> None:
        """Advance the time without executing callbacks, as code that blocks the loop does."""
        self._now += max(0.0, seconds)

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        # Without the checks of the debug mode, because most of the time of a simulation is spent on callbacks.
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not scheduled:
                raise Deadlock("no task can continue")
            if (due := scheduled[0]._when) > self._now:
                self._now, self._steps_at_now = due, 0
        while scheduled and scheduled[0]._when <= self._now:
            handle = heapq.heappop(scheduled)
            handle._scheduled = False
            if not handle._cancelled:
                ready.append(handle)
            else:
                self._timer_cancelled_count -= 1
        for _ in range(len(ready)):
            if not ready:  # A process was dropped with its callbacks.
                break
            self._step(ready.popleft())
        if self._steps_at_now > MAX_STEPS_AT_ONE_TIME:
            raise BusyLoop(f"{self._steps_at_now} callbacks without an advance of time")

    def _step(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(PROCESS, 0)  # type: ignore[attr-defined]
        if process in self.dead:
            return
        if (waiting := self._paused.get(process)) is not None:
            waiting.append(handle)
            return
        handle._run()
        self.steps += 1
        self._steps_at_now += 1
        if process:
            self.current_process = process
            if self.crash_at is not None:
                self.crash_at -= 1
                if self.crash_at <= 0:
                    self.crashed = True
            if self.crashed:
                self.crashed, self.crash_at = False, None
                self.on_crash()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._dropping or _process_of(context.get("future")) in self.dead:
            return  # The process that would have handled it has crashed.
        super().call_exception_handler(context)
        if (error := context.get("exception")) is not None:
            self.on_unhandled(f"{context['message']}: {error!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        super()._timer_handle_cancelled(handle)  # type: ignore[misc]
        scheduled = self._scheduled  # type: ignore[attr-defined]
        if len(scheduled) > 100 and self._timer_cancelled_count * 2 > len(scheduled):
            kept = []
            for each in scheduled:
                if each._cancelled:
                    each._scheduled = False
                else:
                    kept.append(each)
            heapq.heapify(kept)
            scheduled[:] = kept
            self._timer_cancelled_count = 0

    # --- tasks and threads ------------------------------------------------------------------------------------

    def create_future(self) -> SimulatedFuture:
        return SimulatedFuture(next(self._numbers), PROCESS.get(), loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        process = PROCESS.get() if context is None else context.get(PROCESS, 0)
        number = next(self._numbers)
        task = SimulatedTask(coro, number, process, loop=self, name=str(name or f"task-{number}"), context=context)
        tasks = self._tasks.setdefault(process, {})
        tasks[task] = None
        task.add_done_callback(lambda done: tasks.pop(done, None), context=Context())
        return task

    def tasks_of(self, process: int) -> list[SimulatedTask]:
        """Return the tasks of a process that are not done, in order of their creation."""
        return list(self._tasks.get(process, ()))

    def pause(self, process: int) -> None:
        """Execute no callbacks of a process until :meth:`resume`, as if it was suspended."""
        self._paused.setdefault(process, [])

    def resume(self, process: int) -> None:
        """Execute the callbacks of a process again."""
        self._ready.extend(self._paused.pop(process, ()))  # type: ignore[attr-defined]

    def drop(self, process: int) -> None:
        """Drop a process with its tasks and callbacks; the clean-up code in its coroutines must have no effect."""
        self.dead.add(process)
        self._paused.pop(process, None)
        context = Context()  # What the clean-up code schedules belongs to the dropped process, too.
        context.run(PROCESS.set, process)
        self._dropping = True
        try:
            while tasks := self._tasks.pop(process, None):  # The clean-up code can create others.
                context.run(_close, tasks)
        finally:
            self._dropping = False
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        for handle in [each for each in ready if each._context.get(PROCESS, 0) == process]:
            ready.remove(handle)
        kept = [each for each in scheduled if each._context.get(PROCESS, 0) != process]
        heapq.heapify(kept)
        scheduled[:] = kept
        self._timer_cancelled_count = sum(each._cancelled for each in kept)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> SimulatedFuture:  # type: ignore[override]
        """Run *func* in the loop after a delay. A cancelled caller does not stop it, as with a thread."""
        future, chance = self.create_future(), self.random
        delay = chance.random() * _MAX_THREAD_SECONDS
        if chance.random() < _SLOW_THREADS:
            delay *= 100
        delay *= self.thread_factor

        def work() -> None:
            try:
                result = func(*args)
            except ProcessCrashed:
                self.crashed = True
                return
            except BaseException as error:
                if not future.done():
                    future.set_exception(error)
                return
            if not future.done():
                future.set_result(result)

        self.call_later(delay, work)
        return future

    # --- not simulated ----------------------------------------------------------------------------------------

    def _process_events(self, events: Any) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _asyncgen_finalizer_hook(self, generator: Any) -> None:
        if PROCESS.get() in self.dead:
            return
        super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]

    async def create_unix_server(self, protocol_factory: Any, path: Any = None, **options: Any) -> _Server:  # type: ignore[override]
        return _Server(options.get("sock"))

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        pass

    def remove_signal_handler(self, sig: int) -> bool:
        return False


def _process_of(future: Any) -> int:
    """Return the process of a future; a group of ``asyncio.gather`` has that of its first member."""
    process: int = getattr(next(iter(getattr(future, "_children", ())), future), "process", 0)
    return process


class _Server:
    """Server without clients."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    async def wait_closed(self) -> None:
        pass


def _close(tasks: Iterable[SimulatedTask]) -> None:
    with warnings.catch_warnings(), patch.object(sys, "unraisablehook", lambda _: None):
        warnings.simplefilter("ignore", RuntimeWarning)  # Coroutines that the clean-up code creates never start.
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):  # The clean-up code fails or waits; both end with the process.
                task.get_coro().close()
        del tasks
        gc.collect()
