"""Checkpoint of claims, ``dra_manager_state``, compatible with the kubelet: each can continue with the other's file.

The members ``NodeAgentBootID`` and ``Prepared`` are additional. Claims in a file that was written by a kubelet, or
before the host booted, are prepared again, since drivers and CDI files may have lost them.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nodeagent.base.atomic_file import write_private
from nodeagent.contracts.claims import ClaimReference, PreparedDevice
from nodeagent_plugins.claims.state import ClaimEntry, DriverEntry

FILE = "dra_manager_state"
_KIND, _VERSION, _GROUP = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1", "checkpoint.dra.kubelet.k8s.io/"
_MAX_BYTES = 64 * 1024 * 1024
_log = logging.getLogger(__name__)


class CheckpointDamaged(Exception):
    """The file cannot be read; the text is the reason."""


def encode(entries: Iterable[ClaimEntry], boot_id: str) -> str:
    """Return the content of the file."""
    content = {
        "kind": _KIND,
        "apiVersion": _VERSION,
        "NodeAgentBootID": boot_id,
        "ClaimInfoStateList": [_claim_state(entry) for entry in entries],
    }
    data = json.dumps(content, separators=(",", ":"))
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())}, separators=(",", ":"))


def decode(text: str, boot_id: str) -> list[ClaimEntry]:
    """Return the entries of a file.

    :raises CheckpointDamaged: it is not valid JSON, has another form, or its checksum does not match.
    """
    try:
        document = json.loads(text)
        data = document["Data"]
        if zlib.crc32(data.encode()) != document["Checksum"]:
            raise CheckpointDamaged("checkpoint is corrupted: checksum mismatch")
        content = json.loads(data)
        if content.get("kind") != _KIND or not str(content.get("apiVersion")).startswith(_GROUP):
            raise CheckpointDamaged(f"unknown form {content.get('kind')} {content.get('apiVersion')}")
        valid = bool(boot_id) and content.get("NodeAgentBootID") == boot_id
        return [_entry(state, valid=valid) for state in content.get("ClaimInfoStateList") or ()]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointDamaged(f"{type(error).__name__}: {error}") from error


class Checkpoint:
    """The file of one node.

    :param boot_id: identifies the boot of the host; empty if unknown.
    """

    def __init__(self, directory: Path, boot_id: str) -> None:
        self.path, self._boot_id = directory / FILE, boot_id

    def read(self) -> list[ClaimEntry]:
        """Return the stored entries; a damaged file is moved aside. Blocks.

        :raises OSError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return []
        try:
            if len(content) > _MAX_BYTES:
                raise CheckpointDamaged(f"file is larger than {_MAX_BYTES} bytes")
            return decode(content.decode(), self._boot_id)
        except (CheckpointDamaged, UnicodeDecodeError) as error:
            aside = self.path.with_name(f"{FILE}.damaged")
            self.path.replace(aside)
            _log.error(
                "Failed to read checkpoint of resource claims, moved it aside",
                extra={"path": str(self.path), "aside": str(aside), "err": str(error)},
            )
            return []

    def encode(self, entries: Iterable[ClaimEntry]) -> str:
        """Return the content for *entries*; does not block."""
        return encode(entries, self._boot_id)

    def write(self, text: str) -> None:
        """Replace the content of the file. Blocks.

        :raises OSError: the file cannot be written; the previous one remains.
        """
        write_private(self.path, text.encode())


def _claim_state(entry: ClaimEntry) -> dict[str, Any]:
    reference = entry.reference
    return {
        "ClaimUID": reference.uid,
        "ClaimName": reference.name,
        "Namespace": reference.namespace,
        "PodUIDs": {uid: {} for uid in sorted(entry.pods)},
        "DriverState": {
            name: {"Devices": [_device_state(device) for device in driver.devices], "Prepared": driver.prepared}
            for name, driver in entry.drivers.items()
        },
    }


def _device_state(device: PreparedDevice) -> dict[str, Any]:
    return {
        "PoolName": device.pool,
        "DeviceName": device.device,
        "ShareID": device.share_id,
        "RequestNames": list(device.requests),
        "CDIDeviceIDs": list(device.cdi_devices),
    }


def _entry(state: Mapping[str, Any], *, valid: bool) -> ClaimEntry:
    reference = ClaimReference(_text(state["Namespace"]), _text(state["ClaimName"]), _text(state["ClaimUID"]))
    drivers = {_text(name): _driver(each, valid=valid) for name, each in (state["DriverState"] or {}).items()}
    return ClaimEntry(reference, {_text(uid) for uid in state["PodUIDs"] or ()}, drivers)


def _driver(state: Mapping[str, Any], *, valid: bool) -> DriverEntry:
    devices = [
        PreparedDevice(
            _text(device["PoolName"]),
            _text(device["DeviceName"]),
            tuple(map(_text, device.get("RequestNames") or ())),
            tuple(map(_text, device.get("CDIDeviceIDs") or ())),
            None if device.get("ShareID") is None else _text(device["ShareID"]),
        )
        for device in state.get("Devices") or ()
    ]
    return DriverEntry(valid and state.get("Prepared") is True, devices)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, not {type(value).__name__}")
    return value
