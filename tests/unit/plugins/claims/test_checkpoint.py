"""Tests for the checkpoint of claims: the form of the kubelet, and files that are damaged or from another boot."""

from __future__ import annotations

import json
import zlib

import pytest

from nodeagent.contracts.claims import ClaimReference, PreparedDevice
from nodeagent_plugins.claims import checkpoint
from nodeagent_plugins.claims.checkpoint import Checkpoint, CheckpointDamaged, decode, encode
from nodeagent_plugins.claims.state import ClaimEntry, DriverEntry

DEVICE = PreparedDevice("node-1", "gpu-0", ("one",), ("example.com/gpu=0",), None)
DRIVERS = {"gpu.example.com": DriverEntry(True, [DEVICE])}
ENTRY = ClaimEntry(ClaimReference("default", "shared", "c-1"), {"p-1"}, DRIVERS)


def kubelet_file(**changes: object) -> str:
    """Return a file as kubelet 1.36 writes it."""
    device = {
        "PoolName": "node-1",
        "DeviceName": "gpu-0",
        "ShareID": None,
        "RequestNames": ["one"],
        "CDIDeviceIDs": ["example.com/gpu=0"],
    }
    state = {
        "ClaimUID": "c-1",
        "ClaimName": "shared",
        "Namespace": "default",
        "PodUIDs": {"p-1": {}},
        "DriverState": {"gpu.example.com": {"Devices": [device]}},
    }
    content = {
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": [state],
    } | changes
    data = json.dumps(content)
    return json.dumps({"Data": data, "Checksum": zlib.crc32(data.encode())})


def test_file_of_the_kubelet_has_unprepared_claims_with_their_devices():
    (entry,) = decode(kubelet_file(), "boot")

    assert entry.reference == ENTRY.reference
    assert entry.pods == {"p-1"}
    assert entry.drivers == {"gpu.example.com": DriverEntry(False, [DEVICE])}


def test_written_file_has_the_members_of_the_kubelet():
    written, expected = (json.loads(json.loads(text)["Data"]) for text in (encode([ENTRY], "boot"), kubelet_file()))
    state = written["ClaimInfoStateList"][0]
    assert state["DriverState"]["gpu.example.com"].pop("Prepared") is True

    assert written.pop("NodeAgentBootID") == "boot"
    assert written == expected


@pytest.mark.parametrize(("boot", "prepared"), [("boot", True), ("another", False), ("", False)])
def test_claims_are_prepared_only_in_the_same_boot(boot, prepared):
    (entry,) = decode(encode([ENTRY], "boot"), boot)

    assert entry.is_prepared is prepared


def test_claim_without_devices_of_a_driver_is_read():
    (entry,) = decode(kubelet_file(ClaimInfoStateList=[json.loads(json.dumps({
        "ClaimUID": "c", "ClaimName": "n", "Namespace": "ns", "PodUIDs": None, "DriverState": {"d": {"Devices": None}},
    }))]), "boot")  # fmt: skip

    assert entry.drivers == {"d": DriverEntry(False, [])}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"Data":"{}","Checksum":1}',
        kubelet_file(kind="Other"),
        kubelet_file(apiVersion="v2"),
        kubelet_file(ClaimInfoStateList=[{"ClaimUID": 1}]),
        kubelet_file(ClaimInfoStateList=7),
    ],
)
def test_damaged_file_is_reported(text):
    with pytest.raises(CheckpointDamaged):
        decode(text, "boot")


@pytest.mark.parametrize(("over", "entries"), [(0, 1), (1, 0)])
def test_file_that_is_too_large_is_moved_aside(tmp_path, monkeypatch, over, entries):
    stored = Checkpoint(tmp_path, "boot")
    stored.path.write_text(encode([ENTRY], "boot"))
    monkeypatch.setattr(checkpoint, "_MAX_BYTES", stored.path.stat().st_size - over)

    assert len(stored.read()) == entries
    assert stored.path.exists() == (not over)
