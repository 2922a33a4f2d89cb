"""Discovery of admission plugins: bundled modules, and classes that third-party plugins provide."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from apiserver_stub.plugins import PluginError, call, load_plugins
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.admission import AdmissionPlugin

_DECLARED = (("name", str), ("order", int), ("enabled_by_default", bool))


class DiscoveredPlugins(Struct, frozen=True):
    """The available plugins, and the errors of those that could not be loaded."""

    plugins: Mapping[str, type[AdmissionPlugin]]
    """Plugins by name, in the order in which they are called."""
    errors: tuple[str, ...] = ()

    @property
    def enabled_by_default(self) -> list[str]:
        return [name for name, plugin in self.plugins.items() if plugin.enabled_by_default]

    @property
    def disabled_by_default(self) -> list[str]:
        return [name for name, plugin in self.plugins.items() if not plugin.enabled_by_default]


@functools.cache
def discover_plugins() -> DiscoveredPlugins:
    """Return all plugins. The first call imports them."""
    from apiserver_stub.admission import plugins as bundled

    errors: list[str] = []
    found = [(plugin, plugin.__module__) for plugin in bundled_plugins(bundled)]
    try:
        for name, classes in call(load_plugins(), "nodeagent_apiserver_admission_plugins"):
            found += [(plugin, f"plugin {name}") for plugin in classes or ()]
    except PluginError as error:
        errors += str(error).split("\n")
    discovered = arrange(found)
    return DiscoveredPlugins(discovered.plugins, (*errors, *discovered.errors))


def bundled_plugins(package: ModuleType) -> Iterator[type[AdmissionPlugin]]:
    """Yield the plugin classes that the modules of *package* define."""
    from apiserver_stub.admission import AdmissionPlugin

    for item in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(item.name)
        for value in vars(module).values():
            if inspect.isclass(value) and issubclass(value, AdmissionPlugin) and value.__module__ == item.name:
                yield value


def arrange(found: Iterable[tuple[type[AdmissionPlugin], str]]) -> DiscoveredPlugins:
    """Return valid classes by name, sorted by order and name; *found* has each with its origin. No I/O."""
    plugins: dict[str, tuple[type[AdmissionPlugin], str]] = {}
    errors: list[str] = []
    for plugin, origin in found:
        if problem := _declaration_error(plugin):
            errors.append(f"invalid admission plugin {getattr(plugin, '__name__', plugin)!r} of {origin}: {problem}")
        elif plugin.name in plugins:
            other = plugins[plugin.name][1]
            errors.append(f'admission plugin "{plugin.name}" of {origin} has the name of a plugin of {other}')
        else:
            plugins[plugin.name] = (plugin, origin)
    ordered = sorted(plugins.items(), key=lambda item: (item[1][0].order, item[0]))
    return DiscoveredPlugins({name: plugin for name, (plugin, _) in ordered}, tuple(errors))


def _declaration_error(plugin: object) -> str:
    from apiserver_stub.admission import AdmissionPlugin

    if not inspect.isclass(plugin) or not issubclass(plugin, AdmissionPlugin):
        return "not a subclass of apiserver_stub.admission.AdmissionPlugin"
    for attribute, kind in _DECLARED:
        value = getattr(plugin, attribute, None)
        if not isinstance(value, kind) or value == "" or (kind is int and isinstance(value, bool)):
            return f"class attribute {attribute} must be set to a value of type {kind.__name__}"
    return ""
