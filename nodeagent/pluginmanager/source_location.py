"""Source locations in plugins, for error messages. No I/O."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

_OWN_DIRECTORY = Path(__file__).parent


def error_location(error: BaseException) -> str:
    """Return `` in FILE:LINE`` of the plugin that raised *error*, empty if unknown.

    The deepest frame in the directory of the hook implementation counts, not frames of libraries that it called.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent != _OWN_DIRECTORY
    ]
    if not frames:
        return ""
    plugin_dir = Path(frames[0].filename).parent
    deepest = [frame for frame in frames if Path(frame.filename).is_relative_to(plugin_dir)][-1]
    return f" in {Path(deepest.filename).relative_to(plugin_dir)}:{deepest.lineno}"


def directory_of(plugin: object) -> Path | None:
    """Return the package directory of a plugin, or its file if it is a single module; ``None`` if unknown."""
    name = getattr(plugin, "__name__", None) if type(plugin).__name__ == "module" else type(plugin).__module__
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = getattr(module, "__file__", None)
    if not file:
        return None
    path = Path(file)
    return path.parent if path.name == "__init__.py" else path
