"""Checksum of the checkpoint, compatible with the kubelet. No I/O.

The kubelet hashes (32-bit FNV-1a) the structure as printed by Go, so the text contains names of Go types.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

BASIS, _PRIME = 0x811C9DC5, 0x01000193
HEAD = "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"


def checksum(data: Mapping[str, Any]) -> int:
    """Return the checksum of the object ``Data`` of the file.

    :raises ValueError: a value has another type; as do ``KeyError``, ``TypeError`` and ``AttributeError``.
    """
    entries = data["PodDeviceEntries"]
    listed = "<nil>" if entries is None else f"[{' '.join(map(entry_text, entries))}]"
    return fnv(f"{HEAD}{listed}{tail_text(data['RegisteredDevices'])}")


def fnv(text: str, found: int = BASIS) -> int:
    """Return the hash of *text*, which continues the text whose hash is *found*."""
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found


def entry_text(entry: Mapping[str, Any]) -> str:
    """Return the text of one entry."""
    nodes = entry["DeviceIDs"]
    devices = "<nil>" if nodes is None else _map((node, _names(nodes[node])) for node in sorted(nodes, key=int))
    response = base64.b64decode(entry["AllocResp"] or "", validate=True)
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} DeviceIDs:(checkpoint.DevicesPerNUMA){devices} "
        f"AllocResp:([]uint8){_list(map(str, response))}}}"
    )


def tail_text(registered: Mapping[str, Any] | None) -> str:
    """Return the text after the entries."""
    listed = "<nil>" if registered is None else _map((name, _names(registered[name])) for name in sorted(registered))
    return f" RegisteredDevices:(map[string][]string){listed}}}"


def _names(names: Iterable[str] | None) -> str:
    return "<nil>" if names is None else _list(names)


def _map(items: Iterable[tuple[str, str]]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in items)}]"


def _list(items: Iterable[str]) -> str:
    return f"[{' '.join(items)}]"
