"""Calls of async hooks: each one has a deadline, which a plugin cannot ignore, and cannot terminate the agent."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nodeagent.base.logging.origin import PLUGIN
from nodeagent.base.metrics import Counter, Histogram
from nodeagent.base.structs import Struct
from nodeagent.errors import PluginError, PluginTimeout
from nodeagent.pluginmanager.hook_stats import HookStats
from nodeagent.pluginmanager.metered import EventLoopBlocked, MeteredCoroutine, PluginAborted
from nodeagent.pluginmanager.source_location import error_location, without_own_frames

_CALLS = Histogram(
    "nodeagent_plugin_hook_duration_seconds",
    "Duration in seconds of the calls of async hooks.",
    ("plugin", "hook"),
    prefixed=False,
)
_FAILURES = Counter(
    "nodeagent_plugin_hook_failures_total", "Number of failed calls of async hooks.", ("plugin", "hook"), prefixed=False
)
_CPU = Counter(
    "nodeagent_plugin_hook_cpu_seconds_total",
    "CPU time in seconds of the event loop's thread in async hooks.",
    ("plugin", "hook"),
    prefixed=False,
)
CANCEL_SECONDS = 1.0
"""Time that a call has to react to its cancellation before it is terminated."""

_log = logging.getLogger(__name__)


class InFlightCall(Struct, frozen=True):
    """A call of an async hook that has not returned yet."""

    plugin: str
    hook: str
    since: float
    """Monotonic time of the call."""
    subject: str = ""
    """The object that is decided on."""


class HookCalls:
    """Runs each call in a task, so that the caller can stop waiting for it."""

    def __init__(self) -> None:
        self._in_flight: dict[int, InFlightCall] = {}
        self._running: InFlightCall | None = None

    @property
    def in_flight(self) -> Sequence[InFlightCall]:
        """Calls in progress, oldest first."""
        return list(self._in_flight.values())

    @property
    def running(self) -> InFlightCall | None:
        """The call whose code the event loop executes now; also readable from other threads."""
        return self._running

    async def run(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Awaitable[Any]],
        arguments: Sequence[Any],
        *,
        deadline_seconds: float | None,
        stats: HookStats,
        subject: str = "",
        log_as: str = "",
        expected: tuple[type[Exception], ...] = (),
        lasting: bool = False,
    ) -> Any:
        """Call *function* and return its result.

        :param deadline_seconds: time limit; ``None`` if the caller has one.
        :param log_as: plugin to add to the log records of the call.
        :param expected: exceptions that are results; they are raised unchanged.
        :param lasting: the call returns when it is cancelled and is not reported as in flight.

        :raises PluginTimeout: the call did not return before its deadline. It is cancelled, and terminated if it
            ignores that; a late result is discarded.
        :raises PluginError: the call failed, which includes an exception that would terminate the agent.
        """
        call = InFlightCall(plugin, hook, time.monotonic(), subject)
        stats.calls += 1
        if not lasting:
            self._in_flight[id(call)] = call
        metered: MeteredCoroutine | None = None
        try:
            metered = MeteredCoroutine(function(*arguments), call, self._set_running)  # type: ignore[arg-type]
            return await self._wait(call, metered, deadline_seconds, stats, log_as)
        except PluginError as error:
            if error.plugin != plugin:  # The plugin called a hook of another one, which failed.
                error = PluginError(plugin, f"{hook} failed: {error}")
            failure = error
        except expected:
            raise
        except PluginAborted as error:
            failure = aborted(plugin, hook, error)
        except Exception as error:
            failure = failed(plugin, hook, error)
        finally:
            self._in_flight.pop(id(call), None)
            self._count(call, metered, stats)
        stats.failures += 1
        _FAILURES.inc(plugin, hook)
        raise failure

    def run_plain(
        self,
        plugin: str,
        hook: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        *,
        stats: HookStats,
        expected: tuple[type[Exception], ...] = (),
    ) -> Any:
        """Call a function that is not async and return its result; in the event loop, it can be interrupted.

        :param expected: exceptions that are results; they are raised unchanged.
        :raises PluginError: the call failed, which includes an exception that would terminate the agent.
        """
        call, cpu = InFlightCall(plugin, hook, time.monotonic()), time.thread_time()
        stats.calls += 1
        previous, in_loop = self._running, _in_event_loop()
        try:
            if in_loop:
                self._running = call
            return function(*arguments)
        except PluginError as error:
            failure = error
        except expected:
            raise
        except Exception as error:
            failure = failed(plugin, hook, error)
        except BaseException as error:
            failure = aborted(plugin, hook, error)
        finally:
            if in_loop:
                self._running = previous
            seconds, used = time.monotonic() - call.since, time.thread_time() - cpu
            stats.observe(seconds)
            stats.cpu_seconds += used
            if in_loop:
                stats.longest_step_seconds = max(stats.longest_step_seconds, seconds)
            _CALLS.observe(seconds, plugin, hook)
            _CPU.inc(plugin, hook, by=used)
        stats.failures += 1
        _FAILURES.inc(plugin, hook)
        raise failure

    def _count(self, call: InFlightCall, metered: MeteredCoroutine | None, stats: HookStats) -> None:
        seconds = time.monotonic() - call.since
        stats.observe(seconds)
        _CALLS.observe(seconds, call.plugin, call.hook)
        if metered is not None:
            stats.cpu_seconds += metered.cpu_seconds
            stats.longest_step_seconds = max(stats.longest_step_seconds, metered.longest_step_seconds)
            _CPU.inc(call.plugin, call.hook, by=metered.cpu_seconds)

    async def _wait(
        self,
        call: InFlightCall,
        metered: MeteredCoroutine,
        deadline_seconds: float | None,
        stats: HookStats,
        log_as: str,
    ) -> Any:
        task = asyncio.ensure_future(_run(metered, log_as))
        try:
            done, _ = await asyncio.wait((task,), timeout=deadline_seconds)
        except asyncio.CancelledError:
            await self._stop(call, task, metered, stats)
            raise
        if done:
            if task.cancelled():
                raise PluginError(call.plugin, f"{call.hook} was cancelled by the plugin")
            return task.result()
        reacted = await self._stop(call, task, metered, stats)
        text = f"{call.hook} exceeded its deadline of {deadline_seconds or 0:g} s"
        raise PluginTimeout(call.plugin, text if reacted else f"{text} and ignored its cancellation")

    async def _stop(
        self, call: InFlightCall, task: asyncio.Task[Any], metered: MeteredCoroutine, stats: HookStats
    ) -> bool:
        """Cancel *task*; return whether it reacted. The result of a task that did not is discarded."""
        task.cancel()
        done, _ = await asyncio.wait((task,), timeout=CANCEL_SECONDS)
        task.add_done_callback(_discard)
        if done:
            return True
        stats.abandoned += 1
        metered.terminate()
        task.cancel()
        _log.warning(
            "Terminated plugin hook that ignored its cancellation", extra={"plugin": call.plugin, "hook": call.hook}
        )
        return False

    def _set_running(self, metered: MeteredCoroutine | None) -> None:
        self._running = None if metered is None else metered.owner  # type: ignore[assignment]


def failed(plugin: str, hook: str, error: Exception) -> PluginError:
    """Return the failure for an exception that a plugin raised."""
    failure = PluginError(plugin, f"{hook} failed: {error!r}{error_location(error)}")
    failure.__cause__ = without_own_frames(error)
    return failure


def aborted(plugin: str, hook: str, error: BaseException) -> PluginError:
    """Return the failure for a call that was interrupted, or raised an exception that would terminate the agent."""
    cause = error.__cause__ or error
    text = str(error) if isinstance(error, PluginAborted | EventLoopBlocked) else f"raised {error!r}"
    failure = PluginError(plugin, f"{hook} {text}{error_location(cause)}")
    failure.__cause__ = without_own_frames(cause)
    return failure


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _run(metered: MeteredCoroutine, log_as: str) -> Any:
    PLUGIN.set(log_as)  # In the context of this task only.
    return await metered


def _discard(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception, so that asyncio does not report it as lost."""
    if not task.cancelled():
        task.exception()
