"""Kinds: declarations of their resources and their strategies, one module per family.

A module of this package that defines ``resources(settings)`` declares kinds; it is registered nowhere else.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

from apiserver_stub.kinds.registry import Registry, Resource

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings


def bundled_resources(settings: KindSettings) -> list[Resource]:
    """Return the resources of the bundled kinds, in the order of their modules' names."""
    return [resource for module in _modules() for resource in module.resources(settings)]


@functools.cache
def _modules() -> list[Any]:
    modules = [importlib.import_module(item.name) for item in pkgutil.iter_modules(__path__, f"{__name__}.")]
    return [module for module in modules if hasattr(module, "resources")]


__all__ = ["Registry", "Resource", "bundled_resources"]
