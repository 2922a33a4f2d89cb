"""Merged configuration layers: plain values and the origin of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nodeagent.base.structs import Struct
from nodeagent.config.codec import child

_LAST = re.compile(r"(\[[^\]]*\]|\.[^.\[\]]+)$")


class Origin(Struct, frozen=True):
    """Origin of a value."""

    kind: str
    """``default``, ``file``, ``drop-in`` or ``flag``."""
    where: str = ""
    """File or flag."""
    line: int = 0
    kubelet_format: bool = False
    """True if the file has the ``KubeletConfiguration`` format, with its names."""

    def __str__(self) -> str:
        if not self.where:
            return self.kind
        return f"{self.kind} {self.location}"

    @property
    def location(self) -> str:
        """File with line, or flag."""
        return f"{self.where}:{self.line}" if self.line else self.where or self.kind


DEFAULT = Origin("default")


class Tree:
    """Merged plain values and their origins; ``null`` in a later layer removes a value."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self._origins: dict[str, Origin] = {}

    def merge(self, patch: Mapping[str, Any], origin: Callable[[str], Origin]) -> None:
        """Merge *patch* into the current values: objects are merged, all other values are replaced.

        :param origin: returns the origin of the value at a path of *patch*.
        """
        self._merge(self.value, patch, "", origin)

    def replace(self, path: tuple[str, ...], value: Any, origin: Origin) -> None:
        """Set the value at *path*, replacing the current one."""
        target, text = self.value, ""
        for key in path[:-1]:
            text = child(text, key)
            inner = target.get(key)
            target[key] = target = dict(inner) if isinstance(inner, dict) else {}
        text = child(text, path[-1])
        target[path[-1]] = value
        self._discard(text)
        self._record(text, value, lambda _: origin)

    def remove(self, path: tuple[str, ...]) -> None:
        """Remove the value at *path*, so that it is unset."""
        target = self.value
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]
        text = ""
        for key in path:
            text = child(text, key)
        self._discard(text)

    def get(self, path: tuple[str, ...]) -> Any:
        """Return the value at *path*, or ``None``."""
        value: Any = self.value
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def origin(self, path: str) -> Origin:
        """Return the origin of the value at *path*; a field without a recorded origin has that of its object."""
        while path:
            if path in self._origins:
                return self._origins[path]
            shorter = _LAST.sub("", path)
            if shorter == path:
                break
            path = shorter
        return DEFAULT

    def describe(self, path: str) -> str:
        """Return the origin of a field as text; all origins for a map that several files or flags set."""
        origin = self._origins.get(path, DEFAULT)
        if not isinstance(self.get(tuple(path.split("."))), dict):
            return str(origin)
        inner = [
            str(inner_origin)
            for known, inner_origin in self._origins.items()
            if known.startswith((f"{path}.", f"{path}["))
        ]
        return ", ".join(dict.fromkeys(inner)) or str(origin)

    def origins(self) -> Iterator[tuple[str, Origin]]:
        """Yield every path that is set, with its origin."""
        yield from sorted(self._origins.items())

    def _merge(
        self, target: dict[str, Any], patch: Mapping[str, Any], path: str, origin: Callable[[str], Origin]
    ) -> None:
        for key, value in patch.items():
            here = child(path, key)
            if value is None:
                target.pop(key, None)
                self._discard(here)
            elif isinstance(value, dict):
                if not isinstance(target.get(key), dict):
                    target[key] = {}
                    self._discard(here)
                self._origins[here] = origin(here)
                self._merge(target[key], value, here, origin)
            else:
                target[key] = value
                self._discard(here)
                self._record(here, value, origin)

    def _record(self, path: str, value: Any, origin: Callable[[str], Origin]) -> None:
        self._origins[path] = origin(path)
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                self._record(child(path, key), inner, origin)

    def _discard(self, path: str) -> None:
        for known in [known for known in self._origins if known == path or known.startswith((f"{path}.", f"{path}["))]:
            del self._origins[known]
