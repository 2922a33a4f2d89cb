"""Optional dependencies: the extras of the distribution and the modules that they install."""

from __future__ import annotations

import importlib.util

MODULES = {
    "apiserver": ("cel_expr_python", "jwt", "nacl", "re2"),
    "cli": ("rich",),
    "tracing": ("opentelemetry.exporter.otlp.proto.grpc", "opentelemetry.sdk"),
}
"""Modules per extra, as in ``[project.optional-dependencies]`` of ``pyproject.toml``."""


def missing_extra(subject: str, *extras: str) -> str | None:
    """Return one line for the user of *subject* that names the first extra not installed, or ``None``.

    The modules are located but not imported.
    """
    for extra in extras:
        if not all(map(_is_installed, MODULES[extra])):
            return f"{subject} needs the extra \"{extra}\": pip install 'nodeagent[{extra}]'"
    return None


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # raised for a missing parent package
        return False
