"""Source locations in plugins, for error messages. No I/O."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

_OWN_DIRECTORY = Path(__file__).parent


def error_location(error: BaseException) -> str:
    """Return `` in FILE:LINE`` of the plugin that raised *error*, with the package; empty if unknown.

    The deepest frame in the package of the hook implementation counts, not frames of libraries that it called.
    """
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent != _OWN_DIRECTORY
    ]
    if not frames:
        return ""
    root = _package_root(Path(frames[0].filename))
    deepest = [frame for frame in frames if Path(frame.filename).is_relative_to(root)][-1]
    return f" in {Path(deepest.filename).relative_to(root.parent)}:{deepest.lineno}"


def without_own_frames(error: BaseException) -> BaseException:
    """Return *error* with a traceback that starts in the plugin."""
    frame = error.__traceback__
    while frame is not None and Path(frame.tb_frame.f_code.co_filename).parent == _OWN_DIRECTORY:
        frame = frame.tb_next
    return error.with_traceback(frame) if frame is not None else error


def _package_root(file: Path) -> Path:
    """Return the directory of the outermost package that contains a module, or the module's file."""
    root = file
    while (root.parent / "__init__.py").exists():
        root = root.parent
    return root


def directory_of(plugin: object) -> Path | None:
    """Return the package directory of a plugin, or its file if it is a single module; ``None`` if unknown."""
    name = getattr(plugin, "__name__", None) if type(plugin).__name__ == "module" else type(plugin).__module__
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = getattr(module, "__file__", None)
    if not file:
        return None
    path = Path(file)
    return path.parent if path.name == "__init__.py" else path
