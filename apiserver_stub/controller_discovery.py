"""Discovery of controllers: bundled modules, and classes that third-party plugins provide."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Iterable

from apiserver_stub.controllers import names
from apiserver_stub.controllers.manager import bundled_controllers
from apiserver_stub.controllers.plugin import Controller
from apiserver_stub.plugins import PluginError, call, load_plugins
from nodeagent.base.structs import Struct

_NAME = re.compile("[a-z][a-z0-9]*(-[a-z0-9]+)*")


class DiscoveredControllers(Struct, frozen=True):
    """The available controllers, and the errors of those that could not be loaded."""

    controllers: tuple[type[Controller], ...]
    errors: tuple[str, ...] = ()


@functools.cache
def discover_controllers() -> DiscoveredControllers:
    """Return the bundled controllers and those of plugins. The first call imports them."""
    try:
        plugins = load_plugins()
    except PluginError:  # Reported by the discovery of admission plugins.
        return DiscoveredControllers(bundled_controllers())
    try:
        results = call(plugins, "nodeagent_apiserver_controllers")
    except PluginError as error:
        return DiscoveredControllers(bundled_controllers(), (str(error),))
    return arrange((item, plugin) for plugin, items in results for item in items or ())


def arrange(found: Iterable[tuple[object, str]]) -> DiscoveredControllers:
    """Return the bundled controllers and the valid ones of *found*, which has each with its plugin. No I/O."""
    controllers = list(bundled_controllers())
    used = {*names.OTHERS, *names.OTHERS.values()} | {text for item in controllers for text in (item.name, item.alias)}
    errors = []
    for item, plugin in found:
        if not inspect.isclass(item) or not issubclass(item, Controller):
            errors.append(f"plugin {plugin}: not a subclass of apiserver_stub.controllers.plugin.Controller: {item!r}")
        elif not isinstance(item.name, str) or not _NAME.fullmatch(item.name):
            text = "class attribute name must consist of lower case letters, digits and hyphens"
            errors.append(f"plugin {plugin}: controller {item.__name__}: {text}")
        elif item.name in used:
            errors.append(f'plugin {plugin}: controller "{item.name}" has the name of another controller')
        else:
            used.add(item.name)
            controllers.append(item)
    return DiscoveredControllers(tuple(controllers), tuple(errors))
