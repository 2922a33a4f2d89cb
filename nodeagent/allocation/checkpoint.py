"""Files ``allocated_pods_state`` and ``actuated_pods_state``, in the kubelet's format. No I/O.

The kubelet and the agent can read each other's files, so either can replace the other on a node with running pods.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.model.pod import ResourceRequirements
from nodeagent.model.wire import to_wire

_BASIS, _PRIME = 0x811C9DC5, 0x01000193


class CorruptCheckpoint(ValueError):
    """The content was not written by an agent, or was damaged since."""


class PodResources(Struct, frozen=True):
    """Resources of one pod: by container name, and those of the pod itself."""

    containers: Mapping[str, ResourceRequirements] = field(default_factory=dict)
    pod: ResourceRequirements | None = None


def encode(entries: Mapping[str, PodResources]) -> bytes:
    """Return the content of a file with *entries*, by pod UID."""
    pods = {
        uid: {
            "ContainerResources": {name: to_wire(entry.containers[name]) for name in sorted(entry.containers)},
            "PodLevelResources": None if entry.pod is None else to_wire(entry.pod),
        }
        for uid, entry in sorted(entries.items())
    }
    data = json.dumps({"entries": pods} if pods else {}, separators=(",", ":"))
    return json.dumps({"data": data, "checksum": checksum(data)}, separators=(",", ":")).encode()


def decode(content: bytes) -> dict[str, PodResources]:
    """Return the entries of a file, by pod UID.

    :raises CorruptCheckpoint: the content is invalid, or its checksum does not match.
    """
    try:
        file = json.loads(content)
        data, recorded = file["data"], file["checksum"]
        if not isinstance(data, str) or checksum(data) != recorded:
            raise CorruptCheckpoint("checkpoint is corrupted")
        entries: Mapping[str, Any] = json.loads(data).get("entries") or {}
        return {uid: _entry(entry) for uid, entry in entries.items()}
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise error if isinstance(error, CorruptCheckpoint) else CorruptCheckpoint(str(error)) from error


def checksum(data: str) -> int:
    """Return the kubelet's checksum: 32-bit FNV-1a over the data as Go prints it, with its type."""
    found = _BASIS
    for byte in f"(string){data}".encode():
        found = (found ^ byte) * _PRIME & 0xFFFFFFFF
    return found


def _entry(entry: Mapping[str, Any]) -> PodResources:
    containers = entry.get("ContainerResources") or {}
    pod = entry.get("PodLevelResources")
    return PodResources(
        {name: msgspec.convert(resources, ResourceRequirements) for name, resources in containers.items()},
        None if pod is None else msgspec.convert(pod, ResourceRequirements),
    )
