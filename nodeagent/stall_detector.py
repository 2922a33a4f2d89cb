"""Stall detector: a thread that reports the code that blocks the event loop, and interrupts third-party hooks.

The thread samples the stack of the event loop's thread. If that thread is not waiting for events, the detector
schedules a callback in the loop; a callback that does not run in time is a stall. Samples are rare, because each of
them interrupts an idle processor: a stall is reported after half to one and a half times its limit. systemd receives
watchdog pings from this thread for a bounded time, so that a blocking plugin does not restart the agent without a
record of its cause.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from nodeagent.base.structs import Struct
from nodeagent.plugin_containment import StallPolicy
from nodeagent.pluginmanager import InFlightCall, PluginManager
from nodeagent.pluginmanager.metered import EventLoopBlocked

INTERRUPT = signal.SIGURG
"""Ignored by default, so that a late signal has no effect."""

_log = logging.getLogger(__name__)


class Stall(Struct, frozen=True):
    """A period in which the event loop did not respond."""

    plugin: str
    """Plugin whose code was running, empty if it was the agent's own."""
    hook: str
    """Async hook that was running, empty if the code was called in another way."""
    location: str
    """``FILE:LINE`` of the running code."""
    seconds: float
    """Duration so far, or in total once the loop responds."""
    interrupted: bool = False
    """The hook was interrupted."""


class StallDetector:
    """Watches the event loop in which it is started.

    :param ended: called in the event loop after each stall.
    :param ping: sends a watchdog ping to the service manager; called from the thread.
    """

    def __init__(
        self,
        plugins: PluginManager,
        policy: StallPolicy,
        *,
        ended: Callable[[Stall], None],
        ping: Callable[[], None],
    ) -> None:
        self._plugins, self._policy, self._ended, self._ping = plugins, policy, ended, ping
        self._running = threading.Lock()  # Waiting for it takes half the time of waiting for an event.
        self._responded = threading.Event()
        self._thread: threading.Thread | None = None
        self._accused: InFlightCall | None = None
        self._base: FrameType | None = None

    async def run(self) -> None:
        """Watch the event loop until cancelled. Only in the main thread can blocking hooks be interrupted."""
        loop = asyncio.get_running_loop()
        self._base = _frame_of_loop()
        interruptible = threading.current_thread() is threading.main_thread() and self._policy.interrupt_seconds > 0
        previous = signal.signal(INTERRUPT, self._interrupt) if interruptible else None
        self._thread = threading.Thread(
            target=self._watch, args=(loop, threading.get_ident(), interruptible), name="stall-detector", daemon=True
        )
        self._running.acquire(blocking=False)
        self._thread.start()
        try:
            await asyncio.Event().wait()
        finally:
            self._running.release()
            if interruptible:
                signal.signal(INTERRUPT, previous or signal.SIG_DFL)

    # --- thread -------------------------------------------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int, interruptible: bool) -> None:
        period = self._policy.report_seconds
        while not self._running.acquire(timeout=period):
            if self._is_idle(thread):
                continue
            started = time.monotonic()
            self._responded.clear()
            try:
                loop.call_soon_threadsafe(self._responded.set)
            except RuntimeError:  # The loop is closed.
                return
            if not self._responded.wait(period / 2):
                self._stalled(loop, thread, started - period / 2, interruptible)

    def _is_idle(self, thread: int) -> bool:
        frame = sys._current_frames().get(thread)
        return frame is None or frame is self._base or frame.f_code.co_filename.endswith("selectors.py")

    def _stalled(self, loop: asyncio.AbstractEventLoop, thread: int, since: float, interruptible: bool) -> None:
        """Report the stall, and continue until the loop responds."""
        stall = self._describe(thread, since)
        self._ping_watchdog(since)
        _log.error(
            "Event loop is blocked",
            extra={"plugin": stall.plugin, "hook": stall.hook, "location": stall.location},
        )
        interrupted = False
        while not self._responded.wait(self._policy.report_seconds / 2):
            if not self._running.locked():
                return
            self._ping_watchdog(since)
            seconds = time.monotonic() - since
            call = self._plugins.calls.running
            due = interruptible and seconds >= self._policy.interrupt_seconds
            if due and call is not None and not self._plugins.is_bundled(call.plugin):
                interrupted = True
                self._accused = call
                signal.pthread_kill(thread, INTERRUPT)
        total = replace(stall, seconds=time.monotonic() - since, interrupted=interrupted)
        try:
            loop.call_soon_threadsafe(self._ended, total)
        except RuntimeError:  # The loop is closed.
            return

    def _ping_watchdog(self, since: float) -> None:
        if time.monotonic() - since < self._policy.watchdog_seconds:
            self._ping()

    def _describe(self, thread: int, since: float) -> Stall:
        call = self._plugins.calls.running
        frame = sys._current_frames().get(thread)
        stack = []
        while frame is not None and frame is not self._base:
            stack.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        seconds = time.monotonic() - since
        for filename, line in stack:  # The innermost frame of a plugin, not of a library that it called.
            owner = self._plugins.owner_of(filename)
            if owner and (call is None or owner == call.plugin.partition(".")[0]):
                return Stall(owner, call.hook if call else "", f"{_short(filename)}:{line}", seconds)
        location = f"{_short(stack[0][0])}:{stack[0][1]}" if stack else ""
        return Stall(call.plugin if call else "", call.hook if call else "", location, seconds)

    # --- event loop ---------------------------------------------------------------------------------------

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        """Raise in the hook that blocks, if it is still running. A signal handler runs in the main thread."""
        accused, self._accused = self._accused, None
        if accused is not None and self._plugins.calls.running is accused:
            raise EventLoopBlocked(f"blocked the event loop for {time.monotonic() - accused.since:.1f} s")


def _short(filename: str) -> str:
    """Return the last two parts of a path."""
    return "/".join(Path(filename).parts[-2:])


def _frame_of_loop() -> FrameType | None:
    """Return the frame below the running task, in which a uvloop waits for events."""
    frame: FrameType | None = sys._getframe()
    coroutine = 0x80  # inspect.CO_COROUTINE
    while frame is not None and (frame.f_code.co_flags & coroutine or frame.f_code is _frame_of_loop.__code__):
        frame = frame.f_back
    return frame
