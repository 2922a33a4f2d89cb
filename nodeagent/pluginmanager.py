"""Plugin manager: load, order, disable and call plugins.

All plugins are entry points of group ``nodeagent``, bundled ones included. Provider hooks are called through
:meth:`PluginManager.provide` and :meth:`~PluginManager.provide_all`; async hooks through
:meth:`~PluginManager.call_first`, :meth:`~PluginManager.notify`, :meth:`~PluginManager.call_chain` and
:meth:`~PluginManager.gather`, which await one implementation after the other, so that every result, failure and
duration is attributed to a plugin.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import logging
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pluggy

from nodeagent import hookspecs
from nodeagent.contracts.context import ComponentUnavailable
from nodeagent.contracts.hooks import HookResult
from nodeagent.errors import NodeAgentError, PluginError
from nodeagent.hook_context import narrow_context
from nodeagent.hook_results import validate_result

GROUP = "nodeagent"
HOOK_DEADLINE_SECONDS = 10.0
_MAX_DECISIONS = 200

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class HookStats:
    """Call statistics of one plugin and async hook."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A plugin's recorded decision about a pod, an image or the node."""

    plugin: str
    hook: str
    subject: str
    verdict: str  # wording: ok
    at: float


@dataclass(slots=True)
class PluginInfo:
    """One plugin, as listed by ``nodeagent plugins list``."""

    name: str
    version: str = ""
    origin: str = ""
    hooks: tuple[str, ...] = ()
    state: str = "loaded"
    """``loaded``, ``disabled`` or ``failed: …``."""
    stats: dict[str, HookStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InFlightCall:
    """A call of an async hook that has not returned yet."""

    plugin: str
    hook: str
    since: float
    """Monotonic time of the call."""


class PluginManager:
    """The plugins of one agent; implements :class:`~nodeagent.contracts.hooks.PluginHost`.

    :param deadline_seconds: time limit of each implementation of an async hook.
    """

    def __init__(self, *, deadline_seconds: float = HOOK_DEADLINE_SECONDS) -> None:
        self._pluggy = pluggy.PluginManager(GROUP)
        self._pluggy.add_hookspecs(hookspecs)
        self._infos: dict[str, PluginInfo] = {}
        self._deadline = deadline_seconds
        self._failing: set[tuple[str, str]] = set()
        self._in_flight: dict[object, InFlightCall] = {}
        self.decisions: deque[Decision] = deque(maxlen=_MAX_DECISIONS)
        self.decided = asyncio.Event()
        """Set when a decision is recorded."""

    # --- loading ------------------------------------------------------------------------------------------

    def load_entry_points(self, disabled: Iterable[str] = ()) -> None:
        """Load every installed plugin in order of name; a third-party plugin replaces a bundled one of the same name.

        :raises PluginError: a plugin cannot be imported or registered, or *disabled* names one that is not installed.
        """
        disabled_names = set(disabled)
        for name, entry in sorted(_by_name(importlib.metadata.entry_points(group=GROUP)).items()):
            origin, version = _origin(entry)
            if name in disabled_names:
                self._infos[name] = PluginInfo(name, version, origin, state="disabled")
                continue
            try:
                plugin = entry.load()
            except Exception as error:  # third-party modules may raise anything
                raise PluginError(name, f"failed to import {entry.value}: {error!r}") from error
            self.register(plugin, name=name, version=version, origin=origin)
        for name in disabled_names - set(self._infos):
            raise PluginError(name, "cannot be disabled because it is not installed")

    def register(self, plugin: object, *, name: str, version: str = "", origin: str = "") -> None:
        """Add a plugin object; an object that belongs to a plugin is named ``plugin.component``.

        :raises PluginError: the name is in use, or the object implements an unknown hook or accepts arguments that
            the hook does not have.
        """
        try:
            self._pluggy.register(plugin, name=name)
            self._check(plugin, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError(name, str(error)) from error
        hooks = tuple(sorted(caller.name for caller in self._pluggy.get_hookcallers(plugin) or ()))
        parent = self._infos.get(name.partition(".")[0])
        if parent is not None and not version:
            version, origin = parent.version, parent.origin
        self._infos[name] = PluginInfo(name, version, origin, hooks)

    def _check(self, plugin: object, name: str) -> None:
        """Reject unknown hooks, and plain functions that implement async hooks or the reverse."""
        known = {attribute for attribute in vars(hookspecs) if attribute.startswith("nodeagent_")}
        for attribute in dir(plugin):
            function = getattr(plugin, attribute, None)
            if getattr(function, "nodeagent_impl", None) is None:
                continue
            if attribute not in known:
                raise PluginError(name, f"implements unknown hook {attribute}")
            expects_async = inspect.iscoroutinefunction(getattr(hookspecs, attribute))
            if expects_async != inspect.iscoroutinefunction(function):
                kind = "an async def" if expects_async else "a plain def"
                raise PluginError(name, f"{attribute} must be {kind}")

    @property
    def failing(self) -> list[tuple[str, str]]:
        """Plugin and hook of each call that failed last time and does not raise."""
        return sorted(self._failing)

    @property
    def in_flight(self) -> Sequence[InFlightCall]:
        """Calls of async hooks in progress, oldest first."""
        return list(self._in_flight.values())

    def plugins(self) -> Sequence[PluginInfo]:
        """Return every installed or registered plugin, in order of name."""
        return [self._infos[name] for name in sorted(self._infos)]

    # --- provider hooks -----------------------------------------------------------------------------------

    def provide_all(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Call a provider hook on every plugin, in order of name, and return the results that are not ``None``.

        :raises PluginError: an implementation failed; a :class:`NodeAgentError` is passed on unchanged.
        """
        results = []
        for implementation in self._implementations(hook):
            result = self._call(hook, implementation, arguments)
            if result is not None:
                results.append(HookResult(implementation.plugin_name, result))
        return results

    def provide(self, hook: str, **arguments: Any) -> Any:
        """Call a provider hook until a plugin returns an object; third-party plugins run before bundled ones.

        :raises PluginError: no plugin returned an object, or an implementation failed.
        """
        result = self.provide_optional(hook, **arguments)
        if result is None:
            raise PluginError("-", f"no plugin provides {hook.removeprefix('nodeagent_provide_')}")
        return result

    def provide_optional(self, hook: str, **arguments: Any) -> Any:
        """Call a provider hook as :meth:`provide` does; return ``None`` if no plugin returns an object.

        :raises PluginError: an implementation failed.
        """
        for implementation in self._implementations(hook, third_party_first=True):
            result = self._call(hook, implementation, arguments)
            if result is not None:
                self.record_decision(implementation.plugin_name, hook, "agent", type(result).__name__)
                return result
        return None

    def _call(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        name = implementation.plugin_name
        arguments = narrow_context(hook, arguments)
        try:
            result = implementation.function(*(arguments[argument] for argument in implementation.argnames))
        except ComponentUnavailable as error:
            raise PluginError(name, f"{error}{_location(error)}") from error
        except NodeAgentError:
            raise
        except Exception as error:
            raise PluginError(name, f"{hook} failed: {error!r}{_location(error)}") from error
        if problem := validate_result(hook, result):
            raise PluginError(name, f"{hook} {problem}")
        return result

    # --- async hooks --------------------------------------------------------------------------------------

    async def call_first(
        self, hook: str, *, subject: str = "", tolerant: bool = False, **arguments: Any
    ) -> HookResult[Any] | None:
        """Call a decision hook on one plugin after the other; return the first result that is not ``None``.

        :param subject: the object that is decided on, for the record of decisions.
        :param tolerant: skip an implementation that fails, as :meth:`notify` does, instead of raising.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        call = self._tolerate if tolerant else self._await
        for implementation in self._implementations(hook):
            value = await call(hook, implementation, arguments)
            if value is not None:
                self.record_decision(implementation.plugin_name, hook, subject, str(value))
                return HookResult(implementation.plugin_name, value)
        return None

    async def notify(self, hook: str, **arguments: Any) -> None:
        """Call a notification hook on every plugin. A failure does not raise; it is logged once, until it recovers."""
        for implementation in self._implementations(hook):
            await self._tolerate(hook, implementation, arguments)

    async def gather(self, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
        """Return every result that is not ``None``; failures are handled as in :meth:`notify`."""
        results = []
        for implementation in self._implementations(hook):
            value = await self._tolerate(hook, implementation, arguments)
            if value is not None:
                results.append(HookResult(implementation.plugin_name, value))
        return results

    async def call_chain(
        self, hook: str, name: str, value: T, *, subject: str = "", tolerant: bool = False, **arguments: Any
    ) -> T:
        """Pass *value* through every plugin as argument *name*; ``None`` leaves it unchanged.

        :param subject: the object that is changed, for the record of decisions; defaults to *name*.
        :param tolerant: keep *value* unchanged where an implementation fails, instead of raising.
        :raises PluginError: an implementation failed or exceeded the deadline.
        """
        call = self._tolerate if tolerant else self._await
        for implementation in self._implementations(hook):
            changed = await call(hook, implementation, {**arguments, name: value})
            if changed is not None:
                self.record_decision(implementation.plugin_name, hook, subject or name, "changed")
                value = changed
        return value

    def is_implemented(self, hook: str) -> bool:
        """Return whether any plugin implements *hook*, so that a caller can skip preparing the arguments."""
        return bool(self._implementations(hook))

    def record_decision(self, plugin: str, hook: str, subject: str, decision: str) -> None:
        """Record a decision of a plugin; results of decision hooks are recorded automatically.

        :param hook: the hook that was called, or a name for the plugin's action.
        """
        self.decisions.append(Decision(plugin, hook, subject, decision, time.time()))
        self.decided.set()

    async def _tolerate(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        """Call an implementation; a failure returns ``None`` and is logged once, until it recovers."""
        key = (implementation.plugin_name, hook)
        try:
            value = await self._await(hook, implementation, arguments)
        except PluginError as error:
            if key not in self._failing:
                self._failing.add(key)
                _log.error("Plugin hook failed", extra={"plugin": key[0], "hook": hook, "err": error})
            return None
        if key in self._failing:
            self._failing.discard(key)
            _log.info("Plugin hook recovered", extra={"plugin": key[0], "hook": hook})
        return value

    async def _await(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        plugin = implementation.plugin_name
        stats = self._infos[plugin].stats.setdefault(hook, HookStats())
        started = time.monotonic()
        stats.calls += 1
        key = object()
        self._in_flight[key] = InFlightCall(plugin, hook, started)
        try:
            async with asyncio.timeout(self._deadline) as limit:
                function: Callable[..., Awaitable[Any]] = implementation.function  # type: ignore[assignment]
                result = await function(*(arguments[name] for name in implementation.argnames))
        except Exception as error:
            stats.failures += 1
            if limit.expired():
                raise PluginError(plugin, f"{hook} exceeded its deadline of {self._deadline:g} s") from error
            raise PluginError(plugin, f"{hook} failed: {error!r}{_location(error)}") from error
        finally:
            stats.seconds += time.monotonic() - started
            del self._in_flight[key]
        if problem := validate_result(hook, result):
            stats.failures += 1
            raise PluginError(plugin, f"{hook} {problem}")
        return result

    # --- helpers ------------------------------------------------------------------------------------------

    def _implementations(self, hook: str, *, third_party_first: bool = False) -> list[pluggy.HookImpl]:
        """Return implementations in calling order: tryfirst, in order of registration, trylast."""
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        registered = caller.get_hookimpls()
        first = [i for i in registered if i.tryfirst]
        last = [i for i in registered if i.trylast]
        middle = [i for i in registered if not i.tryfirst and not i.trylast]
        if third_party_first:
            middle.sort(key=lambda i: self._infos[i.plugin_name].origin == "nodeagent")
        return [*first, *middle, *last]


def _location(error: Exception) -> str:
    """Return the file and line of the plugin that raised *error*, empty if unknown.

    The deepest frame in the directory of the hook implementation counts, not frames of libraries that it called.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if not frames:
        return ""
    plugin_dir = Path(frames[0].filename).parent
    deepest = [frame for frame in frames if Path(frame.filename).is_relative_to(plugin_dir)][-1]
    return f" in {Path(deepest.filename).relative_to(plugin_dir)}:{deepest.lineno}"


def _by_name(entries: Iterable[importlib.metadata.EntryPoint]) -> dict[str, importlib.metadata.EntryPoint]:
    """Return entry points by name; a third-party one replaces a bundled one."""
    chosen: dict[str, importlib.metadata.EntryPoint] = {}
    for entry in entries:
        if entry.name not in chosen or _origin(entry)[0] != "nodeagent":
            chosen[entry.name] = entry
    return chosen


def _origin(entry: importlib.metadata.EntryPoint) -> tuple[str, str]:
    """Return name and version of the distribution that contains *entry*."""
    distribution = entry.dist
    return (distribution.name, distribution.version) if distribution is not None else ("", "")
