"""Loading of third-party plugins by their entry points."""

from __future__ import annotations

import functools
import importlib.machinery
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pluggy

from apiserver_stub import hookspecs

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "nodeagent_apiserver"


class PluginError(ValueError):
    """A plugin cannot be loaded, or what it provides is invalid."""


@functools.cache
def load_plugins() -> pluggy.PluginManager:
    """Return the plugins of the entry point group :data:`GROUP`.

    :raises PluginError: a plugin cannot be imported or does not implement the hooks correctly; with all problems.
    """
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    problems = []
    for entry_point in entry_points(group=GROUP):
        try:
            manager.register(entry_point.load(), entry_point.name)
        except Exception as error:  # Third-party code can raise any exception.
            origin = entry_point.dist.name if entry_point.dist is not None else entry_point.value
            problems.append(f"plugin {entry_point.name} of {origin}: {type(error).__name__}: {error}")
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        problems.append(f"plugin {manager.get_name(error.plugin)}: {error}")
    if problems:
        raise PluginError("\n".join(problems))
    return manager


def call(manager: pluggy.PluginManager, hook: str, **arguments: Any) -> list[tuple[str, Any]]:
    """Return the results of *hook* with the names of their plugins, sorted by name.

    :raises PluginError: an implementation raises an error.
    """
    results = []
    for implementation in sorted(getattr(manager.hook, hook).get_hookimpls(), key=lambda item: item.plugin_name):
        given = {name: arguments[name] for name in implementation.argnames}
        try:
            results.append((implementation.plugin_name, implementation.function(**given)))
        except Exception as error:  # Third-party code can raise any exception.
            raise PluginError(
                f"plugin {implementation.plugin_name}: {hook}: {type(error).__name__}: {error}"
            ) from error
    return results


def entry_points(*, group: str) -> Iterable[EntryPoint]:
    """Return the entry points of *group* of all distributions."""
    if not _may_have_entry_points(group):
        return ()
    import importlib.metadata  # Deferred: few servers have plugins, and it loads many modules.

    return importlib.metadata.entry_points(group=group)


def _may_have_entry_points(group: str) -> bool:
    """Return whether a distribution may have entry points of *group*: one has, or is not in a directory."""
    finders = (finder for finder in sys.meta_path if finder is not importlib.machinery.PathFinder)
    if any(hasattr(finder, "find_distributions") for finder in finders):
        return True
    for directory in sys.path:
        try:
            names = os.listdir(directory or ".")  # noqa: PTH208 - names only, of hundreds of files
        except FileNotFoundError:
            continue
        except OSError:  # an archive
            return True
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and _declares(Path(directory, name), group):
                return True
    return False


def _declares(distribution: Path, group: str) -> bool:
    try:
        return group.encode() in (distribution / "entry_points.txt").read_bytes()
    except OSError:  # it has none
        return False
