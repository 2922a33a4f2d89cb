"""What the downward API tells a pod about itself, as files show it. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from nodeagent.base.quantity import Quantity
from nodeagent.errors import VolumeError
from nodeagent.model.pod import ObjectFieldSelector, Pod, ResourceFieldSelector

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]")
_ESCAPES = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v", "\\": r"\\", '"': r"\"",
}  # fmt: skip
_FROM_NODE = ("cpu", "memory", "ephemeral-storage")
"""Resources whose limit is the node's when the container sets none."""


def field_value(pod: Pod, selector: ObjectFieldSelector) -> str:
    """Return a field of the pod's metadata.

    :raises VolumeError: the field cannot be shown in a file.
    """
    path, metadata = selector.field_path, pod.metadata
    plain: dict[str, Callable[[], str]] = {
        "metadata.name": lambda: metadata.name,
        "metadata.namespace": lambda: metadata.namespace,
        "metadata.uid": lambda: metadata.uid,
        "metadata.labels": lambda: format_map(metadata.labels or {}),
        "metadata.annotations": lambda: format_map(metadata.annotations or {}),
    }
    if path in plain:
        return plain[path]()
    if match := _SUBSCRIPT.fullmatch(path):
        entries = metadata.labels if match[1] == "labels" else metadata.annotations
        return (entries or {}).get(match[2], "")
    raise VolumeError(f"unsupported fieldPath: {path}")


def resource_value(pod: Pod, selector: ResourceFieldSelector, allocatable: Mapping[str, Any]) -> str:
    """Return a limit or request of a container in units of the divisor, rounded up.

    :param allocatable: the node's; stands in for a limit that is not set.
    :raises VolumeError: there is no such container or resource.
    """
    container = next((c for _, c in pod.containers() if c.name == selector.container_name), None)
    if container is None:
        raise VolumeError(f"container {selector.container_name} not found")
    side, _, resource = selector.resource.partition(".")
    if side == "limits":
        amounts = container.resources.limits or {}
    elif side == "requests":
        amounts = container.resources.requests or {}
    else:
        raise VolumeError(f"unsupported container resource: {selector.resource}")
    if resource not in _FROM_NODE and not resource.startswith("hugepages-"):
        raise VolumeError(f"unsupported container resource: {selector.resource}")
    text = amounts.get(resource, "0")
    if side == "limits" and resource in _FROM_NODE and not Quantity.parse(str(text)):
        text = allocatable.get(resource, "0")
    amount = Quantity.parse(str(text)).nanos
    divisor = (Quantity.parse(str(selector.divisor)) or Quantity(1)).nanos
    return str(-(-amount // divisor))


def format_map(entries: Mapping[str, str]) -> str:
    """Return ``key="value"`` lines, sorted by key."""
    return "\n".join(f"{key}={_quoted(entries[key])}" for key in sorted(entries))


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(ord(c))) for c in text) + '"'


def _escaped(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
