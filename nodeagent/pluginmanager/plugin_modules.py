"""Modules of an installed plugin: import them again, and restore the previous ones if that fails."""

from __future__ import annotations

import importlib
import importlib.util
import site
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from types import ModuleType


def package_of(entry: EntryPoint, others: Iterable[EntryPoint]) -> str:
    """Return the package to import again: the top-level one, unless it also contains other plugins."""
    top = entry.module.partition(".")[0]
    shared = any(other.name != entry.name and other.module.partition(".")[0] == top for other in others)
    return entry.module if shared else top


def import_again(entry: EntryPoint, package: str) -> tuple[object, dict[str, ModuleType]]:
    """Import the modules in *package* from their files; return the plugin and the previous modules. Blocking.

    On failure, the previous modules are restored, and the exception is raised.
    """
    previous = _loaded(package)
    for name in previous:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        _find_editable(entry)
        return entry.load(), previous
    except BaseException:
        restore_modules(package, previous)
        raise


def _find_editable(entry: EntryPoint) -> None:
    """Add the project of an editable installation, which Python finds only at its start, to the module path."""
    if entry.dist is not None and importlib.util.find_spec(entry.module.partition(".")[0]) is None:
        site.addsitedir(str(entry.dist.locate_file("")))


def restore_modules(package: str, previous: dict[str, ModuleType]) -> None:
    """Replace the modules in *package* by those that :func:`import_again` returned."""
    for name in _loaded(package):
        del sys.modules[name]
    sys.modules.update(previous)
    parent, _, name = package.rpartition(".")
    if parent in sys.modules and package in previous:
        setattr(sys.modules[parent], name, previous[package])


def _loaded(package: str) -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name == package or name.startswith(f"{package}.")}
