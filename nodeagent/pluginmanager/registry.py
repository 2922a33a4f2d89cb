"""Registry of plugins: load, order and remove them.

All plugins are entry points of group ``nodeagent``, bundled ones included.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pluggy

from nodeagent import hookspecs
from nodeagent.errors import PluginError
from nodeagent.pluginmanager.api_version import check_api
from nodeagent.pluginmanager.deprecations import Deprecation, reported
from nodeagent.pluginmanager.discovery import GROUP, distribution_of, entry_points_by_name
from nodeagent.pluginmanager.load_cost import LoadCosts
from nodeagent.pluginmanager.ordering import Ordering, arrange, find_cycle, ordering_of, predecessors
from nodeagent.pluginmanager.records import PluginInfo
from nodeagent.pluginmanager.source_location import directory_of
from nodeagent.pluginmanager.specifications import HookSpecifications, add_to, declared_hooks

_BUNDLED = "nodeagent"
_MARK = f"{GROUP}_impl"

_log = logging.getLogger(__name__)


class _Pluggy(pluggy.PluginManager):
    """Plugin manager that examines marked attributes only."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        # Pluggy would search every attribute of every plugin without evaluating it, which took a tenth of the start.
        return super().parse_hookimpl_opts(plugin, name) if _options(plugin, name) is not None else None


class PluginRegistry:
    """The plugins of one agent and the objects that they registered."""

    def __init__(self) -> None:
        self._pluggy = _Pluggy(GROUP)
        self._pluggy.add_hookspecs(hookspecs)
        self.specifications = HookSpecifications()
        self._declared: dict[str, object | None] = {}
        """Specifications of hooks by name of the plugin object; ``None`` for an object that declares none."""
        self._infos: dict[str, PluginInfo] = {}
        self._order: dict[str, int] = {}
        self._orderings: dict[str, Ordering] = {}
        self._earlier: dict[str, set[str]] = {}
        self.load_costs = LoadCosts()
        self.deprecations: list[Deprecation] = []
        """Deprecated hooks and arguments that plugins use."""

    # --- loading ------------------------------------------------------------------------------------------

    def load_entry_points(self, disabled: Iterable[str] = ()) -> None:
        """Load every installed plugin in order of name; a third-party plugin replaces a bundled one of the same name.

        A third-party plugin that cannot be imported or registered is skipped and listed as failed.

        :raises PluginError: a bundled plugin cannot be loaded, or *disabled* names one that is not installed.
        """
        disabled_names = set(disabled)
        loaded: dict[str, object] = {}
        for name, entry in sorted(entry_points_by_name(importlib.metadata.entry_points(group=GROUP)).items()):
            origin, version = distribution_of(entry)
            self._order[name] = len(self._order)
            self._infos[name] = PluginInfo(name, version, origin)
            if name in disabled_names:
                self._infos[name].state = "disabled"
                continue
            with self._skipping_failed(name):
                loaded[name] = self._load(entry, name)
        for name, plugin in loaded.items():
            with self._skipping_failed(name):
                self.add_hooks(plugin, name)
        for name, plugin in loaded.items():
            info = self._infos[name]
            if not info.failed:
                with self._skipping_failed(name):
                    self.register(plugin, name=name, version=info.version, origin=info.origin)
        for name in disabled_names - set(self._infos):
            raise PluginError(name, "cannot be disabled because it is not installed")
        for name, ordering in self._orderings.items():
            for other in set(ordering.before + ordering.after) - set(self._infos):
                fields = {"plugin": name, "missing": other}
                _log.warning("Ignoring order relative to missing plugin", extra=fields)

    def _load(self, entry: importlib.metadata.EntryPoint, name: str) -> object:
        try:
            with self.load_costs.measured(name):
                return entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # third-party modules may raise anything
            raise PluginError(name, f"failed to import {entry.value}: {error!r}") from error

    @contextmanager
    def _skipping_failed(self, name: str) -> Iterator[None]:
        """Skip a third-party plugin that fails.

        :raises PluginError: a bundled plugin fails.
        """
        try:
            yield
        except PluginError as error:
            if self.is_bundled(name):
                raise
            self.skip(name, error)

    def add_hooks(self, plugin: object, name: str) -> None:
        """Add the hooks that a plugin declares, before the plugins that implement them are registered.

        :raises PluginError: they are invalid, or the plugin fails.
        """
        self._declared[name] = None
        declared = declared_hooks(plugin, name)
        if declared is not None:
            self._declare(declared, name)

    def _declare(self, declared: object, name: str) -> None:
        self.specifications.add(name.partition(".")[0], declared)
        add_to(self._pluggy, declared, name)
        self._declared[name] = declared

    def declare_hooks_of(self, other: PluginRegistry) -> None:
        """Declare the hooks that the plugins of another registry declare."""
        for name, declared in other._declared.items():
            if declared is not None:
                self._declare(declared, name)

    def register(self, plugin: object, *, name: str, version: str = "", origin: str = "") -> None:
        """Add a plugin object; an object that belongs to a plugin is named ``plugin.component``.

        :raises PluginError: the name is in use, or the object implements an unknown hook or accepts arguments that
            the hook does not have.
        """
        if name not in self._declared:
            self.add_hooks(plugin, name)
        try:
            with reported(name, self.deprecations):
                self._pluggy.register(plugin, name=name)
            check_api(plugin)
            hooks = tuple(self._checked_hooks(plugin, name))
            self._order_by_name(plugin, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._pluggy.get_plugin(name) is plugin:
                self._pluggy.unregister(name=name)
            raise PluginError(name, str(error)) from error
        except PluginError:
            self._pluggy.unregister(name=name)
            raise
        parent = self._infos.get(name.partition(".")[0])
        if parent is not None and not version:
            version, origin = parent.version, parent.origin
        previous = self._infos.get(name)
        self._order.setdefault(name, len(self._order))
        self._infos[name] = PluginInfo(name, version, origin, hooks, stats=previous.stats if previous else {})

    def _checked_hooks(self, plugin: object, name: str) -> Iterator[str]:
        """Yield the implemented hooks in order of name.

        :raises PluginError: a hook is unknown, or a plain function implements an async hook, or the reverse.
        """
        for attribute in dir(plugin):
            options = _options(plugin, attribute)
            if options is None:
                continue
            if attribute in self.specifications:
                expects_async = self.specifications.is_async(attribute)
                if expects_async != inspect.iscoroutinefunction(getattr(plugin, attribute)):
                    kind = "an async def" if expects_async else "a plain def"
                    raise PluginError(name, f"{attribute} must be {kind}")
            elif not options["optionalhook"]:
                raise PluginError(name, f"implements unknown hook {attribute}")
            yield attribute

    def _order_by_name(self, plugin: object, name: str) -> None:
        """Read the order that a plugin declares.

        :raises PluginError: together with the order of other plugins, it is a cycle.
        """
        orderings = {**self._orderings, name: ordering_of(plugin)}
        earlier = predecessors(orderings)
        if cycle := find_cycle(earlier, name.partition(".")[0]):
            text = " after ".join(cycle)
            raise PluginError(name, f"nodeagent_before and nodeagent_after contradict those of other plugins: {text}")
        self._orderings, self._earlier = orderings, earlier

    # --- removal ------------------------------------------------------------------------------------------

    def skip(self, name: str, error: Exception) -> None:
        """Remove a failed plugin with all of its objects."""
        for each in [info for info in self._infos.values() if info.plugin == name]:
            if self._pluggy.has_plugin(each.name):
                self._pluggy.unregister(name=each.name)
            each.hooks = ()
            each.state = f"failed: {error}"
        _log.error("Failed to load plugin, skipping", extra={"plugin": name, "err": str(error)})

    def remove(self, plugin: str, state: str) -> tuple[Mapping[str, object], Sequence[PluginInfo]]:
        """Remove all objects of a plugin, which is then listed with *state*; return the objects by name."""
        infos = [info for info in self._infos.values() if info.plugin == plugin]
        objects = {}
        for info in infos:
            if self._pluggy.has_plugin(info.name):
                objects[info.name] = self._pluggy.unregister(name=info.name)
            if info.name != plugin:
                del self._infos[info.name]
            self._orderings.pop(info.name, None)
        self._earlier = predecessors(self._orderings)
        own = self._infos.get(plugin)
        if own is not None:
            self._infos[plugin] = replace(own, hooks=(), state=state)
        return objects, infos

    def put_back(self, plugin: str, objects: Mapping[str, object], infos: Iterable[PluginInfo]) -> None:
        """Add the objects that :meth:`remove` removed, after :meth:`remove` of those that replaced them."""
        for info in [info for info in self._infos.values() if info.plugin == plugin]:
            del self._infos[info.name]
        for name, each in objects.items():
            self._pluggy.register(each, name=name)
            self._order_by_name(each, name)
        self._infos |= {info.name: info for info in infos}

    # --- queries ------------------------------------------------------------------------------------------

    def plugins(self) -> Sequence[PluginInfo]:
        """Return every installed or registered plugin, in order of name."""
        return [self._infos[name] for name in sorted(self._infos)]

    def info(self, name: str) -> PluginInfo | None:
        """Return a plugin or an object of one, ``None`` if it is unknown."""
        return self._infos.get(name)

    def hooks_of(self, plugin: str) -> Sequence[str]:
        """Return the hooks that the objects of a plugin implement."""
        return sorted({hook for info in self._infos.values() if info.plugin == plugin for hook in info.hooks})

    def is_bundled(self, plugin: str) -> bool:
        """Return whether the plugin is a part of the agent."""
        info = self._infos.get(plugin.partition(".")[0])
        return info is not None and info.origin == _BUNDLED

    def owner_of(self, filename: str) -> str:
        """Return the plugin whose directory or module contains the source file, empty if none does."""
        path = Path(filename)
        for info in self._infos.values():
            plugin = self._pluggy.get_plugin(info.name)
            directory = directory_of(plugin) if plugin is not None else None
            if directory is not None and (path == directory or directory in path.parents):
                return info.plugin
        return ""

    def is_registered(self, name: str, plugin: object = None) -> bool:
        """Return whether an object has the name, and is *plugin*, if that is given."""
        found = self._pluggy.get_plugin(name)
        return found is not None and plugin in (None, found)

    def implementations(self, hook: str, *, third_party_first: bool = False) -> list[pluggy.HookImpl]:
        """Return implementations in calling order: tryfirst, in order of registration, trylast."""
        caller: pluggy.HookCaller = getattr(self._pluggy.hook, hook)
        registered = sorted(caller.get_hookimpls(), key=lambda each: self._order[each.plugin_name])
        first = [i for i in registered if i.tryfirst]
        last = [i for i in registered if i.trylast]
        middle = [i for i in registered if not i.tryfirst and not i.trylast]
        if third_party_first:
            middle.sort(key=lambda i: self._infos[i.plugin_name].origin == _BUNDLED)
        groups = (arrange(group, _plugin_of, self._earlier) for group in (first, middle, last))
        return [each for group in groups for each in group]


def _options(plugin: object, attribute: str) -> Mapping[str, Any] | None:
    """Return the options of an attribute that is marked with ``hookimpl``, else ``None``."""
    found: Mapping[str, Any] | None = getattr(getattr(plugin, attribute, None), _MARK, None)
    return found


def _plugin_of(implementation: pluggy.HookImpl) -> str:
    """Return the plugin that the implementing object belongs to."""
    return implementation.plugin_name.partition(".")[0]
