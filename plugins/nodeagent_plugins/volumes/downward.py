"""Downward API values in file format. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.errors import VolumeError
from nodeagent.model.downward import metadata_value
from nodeagent.model.pod import ObjectFieldSelector, Pod

_ESCAPES = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\"",
}  # fmt: skip


def field_value(pod: Pod, selector: ObjectFieldSelector) -> str:
    """Return a field of the pod's metadata.

    :raises VolumeError: the field is not supported in volumes.
    """
    path = selector.field_path
    if path == "metadata.labels":
        return format_map(pod.metadata.labels or {})
    if path == "metadata.annotations":
        return format_map(pod.metadata.annotations or {})
    found = metadata_value(pod, path)
    if found is None:
        raise VolumeError(f"unsupported fieldPath: {path}")
    return found


def format_map(entries: Mapping[str, str]) -> str:
    """Return ``key="value"`` lines, sorted by key."""
    return "\n".join(f"{key}={_quoted(entries[key])}" for key in sorted(entries))


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(ord(c))) for c in text) + '"'


def _escaped(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
