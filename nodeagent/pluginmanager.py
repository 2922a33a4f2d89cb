"""Finds, orders, disables and calls plugins.

All plugins come through entry points of group ``nodeagent``, bundled ones included. Provide hooks are called through
:meth:`PluginManager.provide` and :meth:`~PluginManager.provide_all`; moment hooks through :meth:`~PluginManager.ask`,
:meth:`~PluginManager.announce`, :meth:`~PluginManager.fold` and :meth:`~PluginManager.gather`, which await one
implementation after the other, so that every answer, failure and second has a plugin's name.
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
from typing import Any, Generic, TypeVar

import pluggy

from nodeagent import hookspecs
from nodeagent.errors import NodeAgentError, PluginError
from nodeagent.hookanswers import fault_of

GROUP = "nodeagent"
MOMENT_DEADLINE_SECONDS = 10.0
_KEPT_DECISIONS = 200

_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a plugin answered."""

    plugin: str
    value: T


@dataclass(slots=True)
class HookStats:
    """What one plugin spent in one hook."""

    calls: int = 0
    failures: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice that a plugin made about a pod, an image or the node."""

    plugin: str
    hook: str
    subject: str
    verdict: str
    at: float


@dataclass(slots=True)
class PluginInfo:
    """One plugin as ``nodeagent plugins list`` shows it."""

    name: str
    version: str = ""
    origin: str = ""
    hooks: tuple[str, ...] = ()
    state: str = "loaded"
    """``loaded``, ``disabled`` or ``failed: …``."""
    stats: dict[str, HookStats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AtWork:
    """A plugin that has been called and has not answered yet."""

    plugin: str
    hook: str
    since: float
    """Monotonic time of the call."""


class PluginManager:
    """The plugins of one agent.

    :param deadline_seconds: how long one implementation of a moment hook may take.
    """

    def __init__(self, *, deadline_seconds: float = MOMENT_DEADLINE_SECONDS) -> None:
        self._pluggy = pluggy.PluginManager(GROUP)
        self._pluggy.add_hookspecs(hookspecs)
        self._infos: dict[str, PluginInfo] = {}
        self._deadline = deadline_seconds
        self._failing: set[tuple[str, str]] = set()
        self._at_work: dict[object, AtWork] = {}
        self.decisions: deque[Decision] = deque(maxlen=_KEPT_DECISIONS)
        self.decided = asyncio.Event()
        """Set at each decision."""

    # --- loading ------------------------------------------------------------------------------------------

    def load_entry_points(self, disabled: Iterable[str] = ()) -> None:
        """Load every installed plugin in order of name; of two with one name, the one not bundled replaces the other.

        :raises PluginError: a plugin cannot be imported, or breaks the rules of a hook.
        """
        turned_off = set(disabled)
        for name, entry in sorted(_by_name(importlib.metadata.entry_points(group=GROUP)).items()):
            origin, version = _origin(entry)
            if name in turned_off:
                self._infos[name] = PluginInfo(name, version, origin, state="disabled")
                continue
            try:
                plugin = entry.load()
            except Exception as error:  # whatever a foreign module raises, the operator needs its name
                raise PluginError(name, f"cannot be imported from {entry.value}: {error!r}") from error
            self.register(plugin, name=name, version=version, origin=origin)
        for name in turned_off - set(self._infos):
            raise PluginError(name, "cannot be disabled because it is not installed")

    def register(self, plugin: object, *, name: str, version: str = "", origin: str = "") -> None:
        """Add a plugin object; a part of a plugin is named ``plugin.part``.

        :raises PluginError: the name is taken, or a hook is unknown or takes other arguments than the hook has.
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
        """Refuse hooks nobody calls, and plain functions where an awaitable is expected."""
        known = {attribute for attribute in vars(hookspecs) if attribute.startswith("nodeagent_")}
        for attribute in dir(plugin):
            function = getattr(plugin, attribute, None)
            if getattr(function, "nodeagent_impl", None) is None:
                continue
            if attribute not in known:
                raise PluginError(name, f"implements {attribute}, which is no hook")
            wants_async = inspect.iscoroutinefunction(getattr(hookspecs, attribute))
            if wants_async != inspect.iscoroutinefunction(function):
                kind = "an async def" if wants_async else "a plain def"
                raise PluginError(name, f"{attribute} must be {kind}")

    @property
    def failing(self) -> list[tuple[str, str]]:
        """Plugins that failed when they were last told of something, each with the hook."""
        return sorted(self._failing)

    @property
    def at_work(self) -> Sequence[AtWork]:
        """What moment hooks are being waited for now, the longest first."""
        return list(self._at_work.values())

    def plugins(self) -> Sequence[PluginInfo]:
        """Return every plugin that was found, in order of name."""
        return [self._infos[name] for name in sorted(self._infos)]

    # --- provide hooks ------------------------------------------------------------------------------------

    def provide_all(self, hook: str, **arguments: Any) -> Sequence[Answer[Any]]:
        """Call a provide hook on every plugin, in order of name, and return the answers that are not ``None``.

        :raises PluginError: an implementation failed; errors of this project's own kind pass unchanged.
        """
        answers = []
        for implementation in self._implementations(hook):
            answer = self._call(hook, implementation, arguments)
            if answer is not None:
                answers.append(Answer(implementation.plugin_name, answer))
        return answers

    def provide(self, hook: str, **arguments: Any) -> Any:
        """Call a provide hook until one plugin answers; third-party plugins are asked before bundled ones.

        :raises PluginError: nobody answers, or an implementation failed.
        """
        for implementation in self._implementations(hook, foreign_first=True):
            answer = self._call(hook, implementation, arguments)
            if answer is not None:
                self.decide(implementation.plugin_name, hook, "agent", type(answer).__name__)
                return answer
        raise PluginError("-", f"no plugin provides {hook.removeprefix('nodeagent_provide_')}")

    def _call(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        name = implementation.plugin_name
        try:
            answer = implementation.function(*(arguments[argument] for argument in implementation.argnames))
        except NodeAgentError:
            raise
        except Exception as error:
            raise PluginError(name, f"{hook} failed: {error!r}{_place(error)}") from error
        if fault := fault_of(hook, answer):
            raise PluginError(name, f"{hook} {fault}")
        return answer

    # --- moment hooks -------------------------------------------------------------------------------------

    async def ask(
        self, hook: str, *, subject: str = "", tolerant: bool = False, **arguments: Any
    ) -> Answer[Any] | None:
        """Put a question to one plugin after the other and return the first answer that is not ``None``.

        :param subject: what the question is about, for the record of decisions.
        :param tolerant: pass over an implementation that fails, as :meth:`announce` does, instead of raising.
        :raises PluginError: an implementation failed or took too long.
        """
        call = self._tolerate if tolerant else self._await
        for implementation in self._implementations(hook):
            value = await call(hook, implementation, arguments)
            if value is not None:
                self.decide(implementation.plugin_name, hook, subject, str(value))
                return Answer(implementation.plugin_name, value)
        return None

    async def announce(self, hook: str, **arguments: Any) -> None:
        """Tell every plugin; a failure is logged once per change of state and passed over."""
        for implementation in self._implementations(hook):
            await self._tolerate(hook, implementation, arguments)

    async def gather(self, hook: str, **arguments: Any) -> Sequence[Answer[Any]]:
        """Collect every answer that is not ``None``; failures are handled as in :meth:`announce`."""
        answers = []
        for implementation in self._implementations(hook):
            value = await self._tolerate(hook, implementation, arguments)
            if value is not None:
                answers.append(Answer(implementation.plugin_name, value))
        return answers

    async def fold(
        self, hook: str, name: str, value: T, *, subject: str = "", tolerant: bool = False, **arguments: Any
    ) -> T:
        """Let every plugin change *value*, given as argument *name*; ``None`` leaves it as it is.

        :param subject: what is changed, for the record of decisions; the argument's name if none is given.
        :param tolerant: leave *value* as it was where an implementation fails, instead of raising.
        :raises PluginError: an implementation failed or took too long.
        """
        call = self._tolerate if tolerant else self._await
        for implementation in self._implementations(hook):
            changed = await call(hook, implementation, {**arguments, name: value})
            if changed is not None:
                self.decide(implementation.plugin_name, hook, subject or name, "changed")
                value = changed
        return value

    def listens(self, hook: str) -> bool:
        """Whether any plugin implements *hook*; spares the caller the arguments when none does."""
        return bool(self._implementations(hook))

    def decide(self, plugin: str, hook: str, subject: str, verdict: str) -> None:
        """Keep a record of what a plugin decided; answers to questions are recorded by themselves.

        :param hook: the hook that was asked, or a word for what the plugin does.
        """
        self.decisions.append(Decision(plugin, hook, subject, verdict, time.time()))
        self.decided.set()

    async def _tolerate(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        """Call; a failure is logged once per change of state and gives ``None``."""
        key = (implementation.plugin_name, hook)
        try:
            value = await self._await(hook, implementation, arguments)
        except PluginError as error:
            if key not in self._failing:
                self._failing.add(key)
                _log.error("Plugin failed in a moment hook", extra={"plugin": key[0], "hook": hook, "err": error})
            return None
        if key in self._failing:
            self._failing.discard(key)
            _log.info("Plugin works again", extra={"plugin": key[0], "hook": hook})
        return value

    async def _await(self, hook: str, implementation: pluggy.HookImpl, arguments: Mapping[str, Any]) -> Any:
        plugin = implementation.plugin_name
        stats = self._infos[plugin].stats.setdefault(hook, HookStats())
        started = time.monotonic()
        stats.calls += 1
        mark = object()
        self._at_work[mark] = AtWork(plugin, hook, started)
        try:
            async with asyncio.timeout(self._deadline) as limit:
                function: Callable[..., Awaitable[Any]] = implementation.function  # type: ignore[assignment]
                answer = await function(*(arguments[name] for name in implementation.argnames))
        except Exception as error:
            stats.failures += 1
            if limit.expired():
                raise PluginError(plugin, f"{hook} took longer than {self._deadline:g} s") from error
            raise PluginError(plugin, f"{hook} failed: {error!r}{_place(error)}") from error
        finally:
            stats.seconds += time.monotonic() - started
            del self._at_work[mark]
        if fault := fault_of(hook, answer):
            stats.failures += 1
            raise PluginError(plugin, f"{hook} {fault}")
        return answer

    # --- helpers ------------------------------------------------------------------------------------------

    def _implementations(self, hook: str, *, foreign_first: bool = False) -> list[pluggy.HookImpl]:
        """Return implementations in calling order: tryfirst, in order of registration, trylast.

        pluggy calls the last registered first; reversing what it has within each rank gives order of name.
        """
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        found = caller.get_hookimpls()
        first = [i for i in found if i.tryfirst]
        last = [i for i in found if i.trylast]
        middle = [i for i in found if not i.tryfirst and not i.trylast]
        if foreign_first:
            middle.sort(key=lambda i: self._infos[i.plugin_name].origin == "nodeagent")
        return [*first, *middle, *last]


def _place(error: Exception) -> str:
    """Return where in the plugin *error* came about: the deepest line beside the hook's own file; empty if unknown."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if not frames:
        return ""
    home = Path(frames[0].filename).parent
    deepest = [frame for frame in frames if Path(frame.filename).is_relative_to(home)][-1]
    return f" in {Path(deepest.filename).relative_to(home)}:{deepest.lineno}"


def _by_name(entries: Iterable[importlib.metadata.EntryPoint]) -> dict[str, importlib.metadata.EntryPoint]:
    """Return entry points by name; one from another distribution replaces the bundled one."""
    chosen: dict[str, importlib.metadata.EntryPoint] = {}
    for entry in entries:
        if entry.name not in chosen or _origin(entry)[0] != "nodeagent":
            chosen[entry.name] = entry
    return chosen


def _origin(entry: importlib.metadata.EntryPoint) -> tuple[str, str]:
    """Return name and version of the distribution that brings *entry*."""
    distribution = entry.dist
    return (distribution.name, distribution.version) if distribution is not None else ("", "")
