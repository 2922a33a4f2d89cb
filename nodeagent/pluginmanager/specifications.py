"""Specifications of hooks: those of the agent, and those that plugins declare for other plugins."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pluggy

from nodeagent import hookspecs
from nodeagent.errors import PluginError

PROJECT = "nodeagent"
_RESERVED = "nodeagent_"
DECLARING_HOOK = "nodeagent_addhooks"


class HookSpecifications:
    """Specifications by hook name, and the plugins that declare them."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {
            name: function for name, function in vars(hookspecs).items() if name.startswith(_RESERVED)
        }
        self._owners: dict[str, str] = {}

    def __contains__(self, hook: str) -> bool:
        return hook in self._functions

    def __getitem__(self, hook: str) -> Callable[..., Any]:
        return self._functions[hook]

    def is_async(self, hook: str) -> bool:
        return inspect.iscoroutinefunction(self._functions[hook])

    def owner(self, hook: str) -> str:
        """Return the plugin that declares the hook, empty for hooks of the agent."""
        return self._owners.get(hook, "")

    def declared_by(self, plugin: str) -> list[str]:
        """Return the names of the hooks that a plugin declares."""
        return sorted(hook for hook, owner in self._owners.items() if owner == plugin)

    def add(self, plugin: str, specifications: object) -> None:
        """Add the hooks of a plugin.

        :param plugin: name of the plugin, with which the names of its hooks start.
        :param specifications: module or object with functions that are marked with ``hookspec``.
        :raises PluginError: a name does not start with the name of the plugin, or there is no hook.
        """
        prefix = f"{plugin.replace('-', '_')}_"
        found = dict(_marked(specifications))
        if not found:
            raise PluginError(plugin, f"{DECLARING_HOOK}: no function of {specifications!r} is marked with @hookspec")
        if invalid := sorted(name for name in found if not name.startswith(prefix) or name.startswith(_RESERVED)):
            raise PluginError(plugin, f"names of its hooks must start with {prefix}: {', '.join(invalid)}")
        self._functions |= found
        self._owners |= dict.fromkeys(found, plugin)


def declared_hooks(plugin: object, name: str) -> object | None:
    """Return the module or object with the hooks that a plugin declares, ``None`` if it declares none.

    :raises PluginError: the plugin failed.
    """
    function = getattr(plugin, DECLARING_HOOK, None)
    if getattr(function, f"{PROJECT}_impl", None) is None or function is None:
        return None
    try:
        declared: object | None = function()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PluginError(name, f"{DECLARING_HOOK} failed: {error!r}") from error
    return declared


def add_to(manager: pluggy.PluginManager, specifications: object, name: str) -> None:
    """Add the hooks of a plugin to pluggy.

    :raises PluginError: pluggy rejects them.
    """
    try:
        manager.add_hookspecs(specifications)  # type: ignore[arg-type]
    except (pluggy.PluginValidationError, ValueError) as error:
        raise PluginError(name, f"{DECLARING_HOOK}: {error}") from error


def _marked(specifications: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    members: Mapping[str, Any] = {name: getattr(specifications, name, None) for name in dir(specifications)}
    for name, member in members.items():
        if callable(member) and getattr(member, f"{PROJECT}_spec", None) is not None:
            yield name, member
