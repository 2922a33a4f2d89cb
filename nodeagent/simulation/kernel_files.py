"""Files of the kernel with simulated content."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from typing import Any


class KernelFiles:
    """Replaces files that exist on every host.

    :param contents: functions that return the current content, by path.
    """

    def __init__(self, contents: Mapping[str, Callable[[], str]]) -> None:
        self._contents = contents

    def replacements(self) -> list[tuple[object, str, object]]:
        """Return the attributes to replace: owner, name and value."""
        open_file, open_descriptor = io.open, os.open

        def open_simulated(file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            content = self._read(file)
            if content is None:
                return open_file(file, mode, *arguments, **options)
            return io.BytesIO(content.encode()) if "b" in mode else io.StringIO(content)

        def open_simulated_descriptor(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
            content = self._read(path)
            if content is None:
                return open_descriptor(path, flags, *arguments, **options)
            descriptor = os.memfd_create("simulated", os.MFD_CLOEXEC)
            os.pwrite(descriptor, content.encode(), 0)
            return descriptor

        return [(io, "open", open_simulated), (os, "open", open_simulated_descriptor)]

    def _read(self, path: Any) -> str | None:
        content = None if isinstance(path, int) else self._contents.get(os.fspath(path))
        return None if content is None else content()
