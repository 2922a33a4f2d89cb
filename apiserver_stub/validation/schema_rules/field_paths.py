"""Paths of fields in CEL rules. No I/O."""

from __future__ import annotations

import re

from apiserver_stub.apimachinery.objects import Object

_PATH_PART = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path_of(path: str, schema: Object) -> str | None:
    """Return the path as errors show it, such as ``spec.ports[a]``, ``None`` if *schema* has no such field."""
    position, found = 0, ""
    while position < len(path):
        match = _PATH_PART.match(path, position)
        if match is None:
            return None
        name = match[1]
        if name is None:
            if any(escape not in _ESCAPES for escape in _ESCAPE.findall(match[2])):
                return None
            name = _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], match[2])
        additional = schema.get("additionalProperties")
        if properties := schema.get("properties"):
            if name not in properties:
                return None
            schema = properties[name]
            found += f".{name}" if found else name
        elif isinstance(additional, dict):
            schema = additional
            found += f"[{name}]"
        else:
            return None
        position = match.end()
    return found
