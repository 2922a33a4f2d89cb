"""Contained calls of plugins: every failure is attributed, logged until it recovers, and counts for the quarantine."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nodeagent.errors import NodeAgentError, PluginError, PluginUnavailable
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager.contained_objects import CONTAINED, LASTING, contain, method_name
from nodeagent.pluginmanager.hook_calls import HookCalls, InFlightCall
from nodeagent.pluginmanager.hook_stats import HookStats
from nodeagent.pluginmanager.quarantine import Quarantine, QuarantinePolicy
from nodeagent.pluginmanager.records import PluginInfo

_EXPECTED = (NodeAgentError, OSError)
"""Exceptions by which a method of an object reports that it cannot do its work now."""
SKIPPED = object()
"""Result of a hook that was not called."""

_log = logging.getLogger(__name__)


class ContainedCalls:
    """Calls hooks and methods of plugins.

    :param is_bundled: returns whether a plugin is a part of the agent; such plugins are not put into quarantine.
    :param is_required: returns whether pods wait while a plugin is in quarantine.
    """

    def __init__(self, is_bundled: Callable[[str], bool], is_required: Callable[[str], bool]) -> None:
        self._is_bundled, self._is_required = is_bundled, is_required
        self._calls = HookCalls()
        self._failing: set[tuple[str, str]] = set()
        self._quarantines: dict[str, Quarantine] = {}
        self.policy = QuarantinePolicy()
        self.on_quarantine: Callable[[str, Quarantine], None] = lambda plugin, state: None
        """Called when a plugin enters or leaves quarantine."""

    @property
    def in_flight(self) -> Sequence[InFlightCall]:
        """Calls in progress, oldest first."""
        return self._calls.in_flight

    @property
    def running(self) -> InFlightCall | None:
        """The call whose code the event loop executes now; also readable from other threads."""
        return self._calls.running

    @property
    def failing(self) -> Sequence[tuple[str, str]]:
        """Plugin and hook of each call that failed last time."""
        return sorted(self._failing)

    @property
    def quarantines(self) -> Mapping[str, Quarantine]:
        """The failures of each plugin of which a call has failed."""
        return self._quarantines

    async def call_hook(
        self,
        info: PluginInfo,
        hook: str,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        *,
        deadline_seconds: float,
        problem_of: Callable[[Any], str],
        subject: str = "",
    ) -> Any:
        """Call an async hook; return :data:`SKIPPED` without a call while its plugin is in quarantine.

        :param problem_of: returns what is wrong with a result, empty if it is valid.
        :raises PluginUnavailable: the plugin is required and in quarantine.
        :raises PluginError: the call failed or exceeded its deadline.
        """
        stats = _stats(info, hook)
        quarantine = self._quarantines.get(info.plugin)
        if quarantine is not None and not quarantine.allows(now := time.monotonic()):
            stats.skipped += 1
            if not self._is_required(info.name):
                return SKIPPED
            left = (quarantine.until or now) - now
            text = f"failed repeatedly, next attempt in {left:.0f} s: {quarantine.last_error}"
            raise PluginUnavailable(info.name, text)
        if quarantine is not None:
            quarantine.attempt()
        try:
            result = await self._calls.run(
                info.name,
                hook,
                function,
                arguments,
                deadline_seconds=deadline_seconds,
                stats=stats,
                subject=subject,
                log_as="" if self._is_bundled(info.name) else info.plugin,
            )
            if problem := problem_of(result):
                stats.failures += 1
                raise PluginError(info.name, f"{hook} {problem}")
        except PluginError as error:
            self._failed(info, hook, error)
            raise
        except asyncio.CancelledError:
            if quarantine is not None:
                quarantine.cancelled()
            raise
        self._succeeded(info, hook)
        return result

    def contain(self, info: PluginInfo, hook: str, provided: Sequence[Any]) -> Sequence[Any]:
        """Return the objects that a provider hook of a third-party plugin returned, with contained methods."""
        if not provided or hook not in CONTAINED or self._is_bundled(info.name):
            return provided
        return [contain(each, _Methods(self, info, hook)) for each in provided]

    async def call_method(
        self,
        info: PluginInfo,
        hook: str,
        method: str,
        function: Callable[..., Awaitable[Any]],
        arguments: Sequence[Any],
    ) -> Any:
        """Call an async method of an object, also during a quarantine. A call that lasts succeeds after the window.

        :raises PluginError: the call failed or exceeded its deadline.
        """
        name, lasting = method_name(hook, method), method in LASTING
        steady = None
        if lasting:
            delay = self.policy.window_seconds
            steady = asyncio.get_running_loop().call_later(delay, self._succeeded, info, name)
        try:
            result = await self._calls.run(
                info.name,
                name,
                function,
                arguments,
                deadline_seconds=None if lasting else CONTAINED[hook],
                stats=_stats(info, name),
                subject=next((each.full_name for each in arguments if isinstance(each, Pod)), ""),
                log_as=info.plugin,
                expected=_EXPECTED,
                lasting=lasting,
            )
        except PluginError as error:
            self._failed(info, name, error)
            raise
        finally:
            if steady is not None:
                steady.cancel()
        self._succeeded(info, name)
        return result

    def call_plain_method(
        self, info: PluginInfo, hook: str, method: str, function: Callable[..., Any], arguments: Sequence[Any]
    ) -> Any:
        """Call a method of an object that is not async.

        :raises PluginError: the call failed.
        """
        name = method_name(hook, method)
        try:
            result = self._calls.run_plain(
                info.name, name, function, arguments, stats=_stats(info, name), expected=_EXPECTED
            )
        except PluginError as error:
            self._failed(info, name, error)
            raise
        self._succeeded(info, name)
        return result

    def record_failure(self, info: PluginInfo, error: str) -> None:
        """Record a failure outside of a call."""
        self._count(info, PluginError(info.name, error))

    def record_recovery(self, plugin: str) -> None:
        """Record that the condition of earlier failures is over."""
        quarantine = self._quarantines.get(plugin)
        if quarantine is not None:
            quarantine.recovered(time.monotonic())

    def withdraw(self, plugin: str) -> Quarantine | None:
        """Drop the failures of a plugin that is removed; return them."""
        self._failing = {key for key in self._failing if key[0].partition(".")[0] != plugin}
        return self._quarantines.pop(plugin, None)

    def restore(self, plugin: str, quarantine: Quarantine | None) -> None:
        """Restore what :meth:`withdraw` returned."""
        if quarantine is not None:
            self._quarantines[plugin] = quarantine

    def _failed(self, info: PluginInfo, hook: str, error: PluginError) -> None:
        key = (info.name, hook)
        if key not in self._failing:
            self._failing.add(key)
            fields = {"plugin": info.name, "hook": hook}
            if error.__cause__ is None:  # Otherwise it is logged with its traceback.
                fields["err"] = str(error)
            _log.error("Plugin hook failed", extra=fields, exc_info=error.__cause__)
        self._count(info, error)

    def _count(self, info: PluginInfo, error: PluginError) -> None:
        if self._is_bundled(info.name):
            return
        quarantine = self._quarantines.setdefault(info.plugin, Quarantine(self.policy))
        if quarantine.failed(time.monotonic(), str(error)):
            fields = {"plugin": info.plugin, "seconds": round(quarantine.seconds, 1), "err": str(error)}
            _log.error("Plugin quarantined", extra=fields)
            self.on_quarantine(info.plugin, quarantine)

    def _succeeded(self, info: PluginInfo, hook: str) -> None:
        key = (info.name, hook)
        if key in self._failing:
            self._failing.discard(key)
            _log.info("Plugin hook recovered", extra={"plugin": info.name, "hook": hook})
        quarantine = self._quarantines.get(info.plugin)
        if quarantine is None or quarantine.failing_since is None:
            return
        if quarantine.succeeded(time.monotonic()):
            _log.info("Plugin recovered from quarantine", extra={"plugin": info.plugin})
            self.on_quarantine(info.plugin, quarantine)


class _Methods:
    """The methods of one plugin's objects from one hook."""

    def __init__(self, calls: ContainedCalls, info: PluginInfo, hook: str) -> None:
        self._calls, self._info, self._hook = calls, info, hook

    async def call(self, method: str, function: Callable[..., Awaitable[Any]], arguments: Sequence[Any]) -> Any:
        return await self._calls.call_method(self._info, self._hook, method, function, arguments)

    def call_plain(self, method: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        return self._calls.call_plain_method(self._info, self._hook, method, function, arguments)


def _stats(info: PluginInfo, hook: str) -> HookStats:
    return info.stats.get(hook) or info.stats.setdefault(hook, HookStats())
