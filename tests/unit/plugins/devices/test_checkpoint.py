"""Tests for the checkpoint of devices: the kubelet's files are read, and its checksums are written."""

from __future__ import annotations

import json

import pytest

from nodeagent_plugins.devices import checkpoint
from nodeagent_plugins.devices.checkpoint import (
    CheckpointDamaged,
    CheckpointData,
    Encoder,
    Entry,
    by_node,
    decode,
    read,
)

RESPONSE = "Ch8KFk5WSURJQV9WSVNJQkxFX0RFVklDRVMSBXRlZ3Jh"
GPU = "nvidia.com/gpu"
UID = "bf52b2cd-b611-4e79-86b1-280b283185c3"


def encode(data: CheckpointData) -> str:
    return Encoder().encode(data)[0]


def document(data: object, checksum: int) -> str:
    return json.dumps({"Data": data, "Checksum": checksum})


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        (
            {
                "PodDeviceEntries": None,
                "RegisteredDevices": {GPU: ["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"]},
            },
            3952659280,
        ),
        (
            {
                "PodDeviceEntries": [
                    {
                        "PodUID": UID,
                        "ContainerName": "check",
                        "ResourceName": GPU,
                        "DeviceIDs": {"-1": ["tegra"]},
                        "AllocResp": RESPONSE,
                    }
                ],
                "RegisteredDevices": {GPU: ["tegra"]},
            },
            3660592824,
        ),
    ],
)
def test_files_of_the_kubelet_are_read_and_written_alike(data, checksum):
    found = decode(document(data, checksum))

    assert json.loads(encode(found)) == {"Data": data, "Checksum": checksum}


def test_devices_of_several_numa_nodes_are_listed_under_each():
    data = CheckpointData([Entry(UID, "main", GPU, by_node(["a", "b"], {"a": (0, 1)}), b"")], {})

    (entry,) = json.loads(encode(data))["Data"]["PodDeviceEntries"]
    assert entry["DeviceIDs"] == {"-1": ["b"], "0": ["a"], "1": ["a"]}
    assert decode(encode(data)).entries[0].devices == {-1: ("b",), 0: ("a",), 1: ("a",)}


def test_changed_entries_are_encoded_as_if_all_were():
    encoder, entries = Encoder(), [Entry(f"u{n}", "main", GPU, {-1: [f"g{n}"]}, bytes([n])) for n in range(5)]
    for chosen in (entries[:3], entries, entries[1:], entries[1:3], [], entries):
        data = CheckpointData(tuple(chosen), {GPU: ["g0"]})
        assert encoder.encode(data)[0] == encode(data)
        assert decode(encode(data)).registered == {GPU: ("g0",)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}, "Checksum": 1}',
        '{"Data": {"PodDeviceEntries": [7], "RegisteredDevices": {}}, "Checksum": 1}',
        '{"Data": null, "Checksum": 0}',
        "[" * 100_000,
    ],
)
def test_damaged_file_is_rejected(text):
    with pytest.raises(CheckpointDamaged):
        decode(text)


def test_file_has_a_limit(tmp_path, monkeypatch):
    file = tmp_path / "checkpoint"
    assert read(file) is None
    file.write_text(encode(CheckpointData([], {GPU: ("a",)})))
    monkeypatch.setattr(checkpoint, "_MAX_BYTES", file.stat().st_size)
    assert read(file) is not None
    monkeypatch.setattr(checkpoint, "_MAX_BYTES", file.stat().st_size - 1)
    with pytest.raises(CheckpointDamaged, match="checkpoint is longer than"):
        read(file)
