"""Targets by subject; importing a module registers its targets."""

from __future__ import annotations

import importlib
import pkgutil


def load() -> None:
    """Import the modules of all targets."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
