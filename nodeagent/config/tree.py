"""Configuration in layers: plain values merged one over the other, each value knowing where it came from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodeagent.config.codec import child

_LAST = re.compile(r"(\[[^\]]*\]|\.[^.\[\]]+)$")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    kind: str
    """``default``, ``file``, ``drop-in`` or ``flag``."""
    where: str = ""
    """The file or the flag."""
    line: int = 0
    reference: bool = False
    """The file is in the reference form, and so are the names in it."""

    def __str__(self) -> str:
        if not self.where:
            return self.kind
        return f"{self.kind} {self.place}"

    @property
    def place(self) -> str:
        """The file with the line, or the flag."""
        return f"{self.where}:{self.line}" if self.line else self.where or self.kind


DEFAULT = Origin("default")


class Tree:
    """The merged plain values and the origin of each; ``null`` in a later layer takes a value away again."""

    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self._origins: dict[str, Origin] = {}

    def merge(self, patch: Mapping[str, Any], origin: Callable[[str], Origin]) -> None:
        """Lay *patch* over the values so far: objects are merged, everything else is replaced.

        :param origin: tells where the value at a path of *patch* came from.
        """
        self._merge(self.value, patch, "", origin)

    def replace(self, path: tuple[str, ...], value: Any, origin: Origin) -> None:
        """Put *value* at *path*, whatever was there before."""
        target, text = self.value, ""
        for key in path[:-1]:
            text = child(text, key)
            inner = target.get(key)
            target[key] = target = dict(inner) if isinstance(inner, dict) else {}
        text = child(text, path[-1])
        target[path[-1]] = value
        self._forget(text)
        self._note(text, value, lambda _: origin)

    def remove(self, path: tuple[str, ...]) -> None:
        """Take the value at *path* away, as if nobody had set it."""
        target = self.value
        for key in path[:-1]:
            target = target[key]
        del target[path[-1]]
        text = ""
        for key in path:
            text = child(text, key)
        self._forget(text)

    def get(self, path: tuple[str, ...]) -> Any:
        """Return the value at *path*, or ``None``."""
        value: Any = self.value
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value

    def origin(self, path: str) -> Origin:
        """Return where the value at *path* came from; a member without its own origin shares that around it."""
        while path:
            if path in self._origins:
                return self._origins[path]
            shorter = _LAST.sub("", path)
            if shorter == path:
                break
            path = shorter
        return DEFAULT

    def describe(self, path: str) -> str:
        """Tell where the value of a field came from; a map that several places wrote to names each of them."""
        own = self._origins.get(path, DEFAULT)
        if not isinstance(self.get(tuple(path.split("."))), dict):
            return str(own)
        inner = [str(origin) for known, origin in self._origins.items() if known.startswith((f"{path}.", f"{path}["))]
        return ", ".join(dict.fromkeys(inner)) or str(own)

    def origins(self) -> Iterator[tuple[str, Origin]]:
        """Yield every path that somebody set, with its origin."""
        yield from sorted(self._origins.items())

    def _merge(
        self, target: dict[str, Any], patch: Mapping[str, Any], path: str, origin: Callable[[str], Origin]
    ) -> None:
        for key, value in patch.items():
            here = child(path, key)
            if value is None:
                target.pop(key, None)
                self._forget(here)
            elif isinstance(value, dict):
                if not isinstance(target.get(key), dict):
                    target[key] = {}
                    self._forget(here)
                self._origins[here] = origin(here)
                self._merge(target[key], value, here, origin)
            else:
                target[key] = value
                self._forget(here)
                self._note(here, value, origin)

    def _note(self, path: str, value: Any, origin: Callable[[str], Origin]) -> None:
        self._origins[path] = origin(path)
        if isinstance(value, dict | list):
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
                self._note(child(path, key), inner, origin)

    def _forget(self, path: str) -> None:
        for known in [known for known in self._origins if known == path or known.startswith((f"{path}.", f"{path}["))]:
            del self._origins[known]
