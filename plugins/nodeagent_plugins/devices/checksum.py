"""Checksum of the checkpoint, compatible with the kubelet. No I/O.

The kubelet hashes (32-bit FNV-1a) the structure as printed by Go, so the text contains names of Go types.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

_BASIS, _PRIME = 0x811C9DC5, 0x01000193


def checksum(data: Mapping[str, Any]) -> int:
    """Return the checksum of the object ``Data`` of the file.

    :raises ValueError: a value has another type; as do ``KeyError``, ``TypeError`` and ``AttributeError``.
    """
    entries = data["PodDeviceEntries"]
    registered = data["RegisteredDevices"]
    text = (
        "(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)"
        f"{'<nil>' if entries is None else _list(map(_entry, entries))} "
        "RegisteredDevices:(map[string][]string)"
        f"{'<nil>' if registered is None else _map((name, _names(registered[name])) for name in sorted(registered))}}}"
    )
    found = _BASIS
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found


def _entry(entry: Mapping[str, Any]) -> str:
    nodes = entry["DeviceIDs"]
    devices = "<nil>" if nodes is None else _map((node, _names(nodes[node])) for node in sorted(nodes, key=int))
    response = base64.b64decode(entry["AllocResp"] or "", validate=True)
    return (
        f"{{PodUID:(string){entry['PodUID']} ContainerName:(string){entry['ContainerName']} "
        f"ResourceName:(string){entry['ResourceName']} DeviceIDs:(checkpoint.DevicesPerNUMA){devices} "
        f"AllocResp:([]uint8){_list(map(str, response))}}}"
    )


def _names(names: Iterable[str] | None) -> str:
    return "<nil>" if names is None else _list(names)


def _map(items: Iterable[tuple[str, str]]) -> str:
    return f"map[{' '.join(f'{key}:{value}' for key, value in items)}]"


def _list(items: Iterable[str]) -> str:
    return f"[{' '.join(items)}]"
