"""Checkpoint of allocated devices, compatible with the kubelet: each can continue with the other's file."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent_plugins.devices.checksum import HEAD, checksum, entry_text, fnv, tail_text

FILE = "kubelet_internal_checkpoint"
NO_NODE = -1
"""Key of devices without NUMA nodes."""
_MAX_BYTES = 64 * 1024 * 1024


class CheckpointDamaged(Exception):
    """The file cannot be read; the text is the reason.

    :ivar registered: devices by resource in an earlier checkpoint.
    """

    registered: Mapping[str, Sequence[str]] = MappingProxyType({})


class Entry(Struct, frozen=True):
    """Devices of one resource for one container."""

    uid: str
    container: str
    resource: str
    devices: Mapping[int, Sequence[str]]
    """Devices by NUMA node; a device of several nodes is listed under each."""
    response: bytes
    """``ContainerAllocateResponse``."""


class CheckpointData(Struct, frozen=True):
    """Content of the file."""

    entries: Sequence[Entry] = ()
    registered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Healthy devices by resource."""


class _Encoded(Struct, frozen=True):
    """Encoded entry, and the checksum of the text up to it."""

    entry: Entry
    json: str
    checksum: int


class Encoder:
    """Encodes the file; only entries after the first changed one are encoded again."""

    def __init__(self) -> None:
        self._encoded: list[_Encoded] = []

    def encode(self, data: CheckpointData) -> tuple[str, int]:
        """Return the content of the file, and its checksum."""
        found, checksum = self._encoded, fnv(f"{HEAD}[")
        same = 0
        while same < min(len(found), len(data.entries)) and found[same].entry is data.entries[same]:
            same += 1
        del found[same:]
        if found:
            checksum = found[-1].checksum
        for entry in data.entries[same:]:
            content = _to_object(entry)
            checksum = fnv(f"{' ' if found else ''}{entry_text(content)}", checksum)
            found.append(_Encoded(entry, _dumps(content), checksum))
        registered = {name: list(ids) for name, ids in data.registered.items()}
        tail = tail_text(registered)
        checksum = fnv(f"]{tail}", checksum) if found else fnv(f"{HEAD}<nil>{tail}")
        entries = f"[{','.join(each.json for each in found)}]" if found else "null"
        text = f'{{"PodDeviceEntries":{entries},"RegisteredDevices":{_dumps(registered)}}}'
        return f'{{"Data":{text},"Checksum":{checksum}}}', checksum


def decode(text: str) -> CheckpointData:
    """Return the content of a file.

    :raises CheckpointDamaged: it is not valid JSON, has another form, or its checksum does not match.
    """
    try:
        document = json.loads(text)
        content = document["Data"]
        if document["Checksum"] != checksum(content):
            raise CheckpointDamaged("checkpoint is corrupted: checksum mismatch")
        return CheckpointData(
            tuple(_entry(each) for each in content["PodDeviceEntries"] or ()),
            {_text(name): _ids(ids) for name, ids in (content["RegisteredDevices"] or {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise CheckpointDamaged(f"checkpoint is corrupted: {error!r}") from error


def read(file: Path) -> CheckpointData | None:
    """Return the stored allocations; ``None`` if there is no file. Blocking.

    :raises CheckpointDamaged: the file is damaged or cannot be read.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise CheckpointDamaged(f"checkpoint is longer than {_MAX_BYTES} bytes")
        return decode(content.decode("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointDamaged(str(error)) from error


def write(file: Path, text: str) -> None:
    """Replace the file. Blocking.

    :raises OSError: the file cannot be written; the previous one remains.
    """
    aside = file.with_name(f".{file.name}")
    file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    with aside.open("w", encoding="utf-8") as stream:
        stream.write(text)
    aside.replace(file)


def by_node(ids: Iterable[str], nodes: Mapping[str, Sequence[int]]) -> dict[int, list[str]]:
    """Return *ids* by NUMA node."""
    found: dict[int, list[str]] = {}
    for id in ids:
        for node in nodes.get(id) or (NO_NODE,):
            found.setdefault(node, []).append(id)
    return found


def _to_object(entry: Entry) -> dict[str, Any]:
    return {
        "PodUID": entry.uid,
        "ContainerName": entry.container,
        "ResourceName": entry.resource,
        "DeviceIDs": {str(node): list(ids) for node, ids in sorted(entry.devices.items())},
        "AllocResp": base64.b64encode(entry.response).decode(),
    }


def _dumps(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def _entry(each: Any) -> Entry:
    devices = {int(node): _ids(ids) for node, ids in (each["DeviceIDs"] or {}).items()}
    response = base64.b64decode(each["AllocResp"] or "", validate=True)
    return Entry(_text(each["PodUID"]), _text(each["ContainerName"]), _text(each["ResourceName"]), devices, response)


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(_text(id) for id in value or ())


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a string: {value!r}")
    return value
