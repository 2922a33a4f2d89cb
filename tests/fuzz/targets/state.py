"""Files with the state of the agent and the embedded runtime, which a crash or a disk can damage."""

from __future__ import annotations

import contextlib
import json
import zlib
from typing import Any

from nodeagent.allocation import checkpoint as allocations
from nodeagent.base.cdi.spec import CdiError, parse_spec
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.errors import VolumeError
from nodeagent_plugins.claims import checkpoint as claims
from nodeagent_plugins.csi import data_file
from nodeagent_plugins.devices import checkpoint as devices
from nodeagent_plugins.devices.checksum import checksum
from nodeagent_plugins.embedded_runtime.images.store import ImageStore
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox
from nodeagent_plugins.image_pull import pull_records
from nodeagent_plugins.resource_managers.checkpoint import Checkpoint
from nodeagent_plugins.resource_managers.checksum import of_cpus, of_memory
from nodeagent_plugins.resource_managers.cpu import CpuAssignments
from nodeagent_plugins.resource_managers.errors import StaleState
from nodeagent_plugins.resource_managers.memory import MemoryAssignments
from nodeagent_plugins.resource_managers.topology import CpuLocation, NumaNode, Topology
from tests.fuzz.files import directory, written
from tests.fuzz.target import target

VALUES = (b"null", b"[]", b"{}", b"1e999", b"-1", b'""', b"[" * 1100, b"\\ud800", b"true", b"12345678901234567890123")
TOPOLOGY = Topology({number: CpuLocation(number, 0, 0, 0) for number in range(4)}, {0: NumaNode(1 << 30)})


@target(
    devices.CheckpointDamaged,
    tokens=(*VALUES, b'"PodDeviceEntries":[', b'"DeviceIDs":{"0":["', b'"AllocResp":"', b'"RegisteredDevices":{'),
)
def device_checkpoint(data: bytes) -> None:
    """A file with a valid checksum is read as the entries that it was written from."""
    text = data.decode("utf-8", "replace")
    with contextlib.suppress(Exception):
        text = json.dumps({"Data": json.loads(text), "Checksum": checksum(json.loads(text))})
    content = devices.decode(text)
    encoded, _ = devices.Encoder().encode(content)
    assert devices.decode(encoded) == content


@target(
    claims.CheckpointDamaged,
    tokens=(*VALUES, b'"ClaimInfoStateList":[', b'"DriverState":{', b'"PodUIDs":{', b'"Devices":['),
)
def claim_checkpoint(data: bytes) -> None:
    """A file with a valid checksum is read as the entries that it was written from."""
    text = data.decode("utf-8", "replace")
    if text.startswith("{"):
        text = json.dumps({"Data": text, "Checksum": zlib.crc32(text.encode())})
    entries = claims.decode(text, "boot")
    assert claims.decode(claims.encode(entries, "boot"), "boot") == entries


@target(
    allocations.CorruptCheckpoint,
    tokens=(*VALUES, b'"entries":{"', b'"ContainerResources":{', b'"requests":{"cpu":"1"}', b'"PodLevelResources":{'),
)
def allocation_checkpoint(data: bytes) -> None:
    """A file with a valid checksum is read as the entries that it was written from."""
    text = data.decode("utf-8", "replace")
    if text.startswith("{"):
        data = json.dumps({"data": text, "checksum": allocations.checksum(text)}).encode()
    entries = allocations.decode(data)
    assert allocations.decode(allocations.encode(entries)) == entries


@target(StaleState, tokens=(*VALUES, b'"policyName":"static"', b'"defaultCpuSet":"0-3"', b'"entries":{"'))
def cpu_state(data: bytes) -> None:
    """A state that does not match the host is rejected."""
    state = _state("static", of_cpus, data)
    if state is not None:
        CpuAssignments(TOPOLOGY, frozenset((0,))).restore(state)


@target(
    StaleState,
    tokens=(
        *VALUES,
        b'"policyName":"Static"',
        b'"machineState":{"0":{',
        b'"memoryMap":{"memory":{',
        b'"entries":{"',
        b'"numaAffinity":[0]',
        b'"size":',
    ),
)
def memory_state(data: bytes) -> None:
    """A state that does not match the host is rejected."""
    state = _state("Static", of_memory, data)
    if state is not None:
        MemoryAssignments(TOPOLOGY, {}).restore(state)


def _state(policy: str, fingerprint: Any, data: bytes) -> dict[str, Any] | None:
    """Return the state in a file with the content *data*, to which a valid checksum is added where possible."""
    try:
        content = json.loads(data)
        data = json.dumps({**content, "checksum": fingerprint(content)}).encode()
    except Exception:
        pass
    return Checkpoint(written("state", data), policy, fingerprint).read()


@target(
    pull_records.RecordError,
    tokens=(
        *VALUES,
        b'"kind":"ImagePulledRecord"',
        b'"credentialMapping":{"',
        b'"kubernetesSecrets":[{',
        b'"kind":"ImagePullIntent"',
    ),
)
def pull_record(data: bytes) -> None:
    """A record is written as it was read."""
    record = pull_records.decode_pulled(data)
    assert pull_records.decode_pulled(pull_records.encode_pulled(record)) == record
    pull_records.decode_intent(data)


@target(
    VolumeError,
    FileNotFoundError,
    tokens=(*VALUES, b'"driverName":"csi.test"', b'"volumeHandle":"', b'"volumeLifecycleMode":"'),
)
def csi_data_file(data: bytes) -> None:
    """The data of a volume is written as it was read."""
    path = written(data_file.NAME, data)
    found = data_file.load(path.parent, path.parent)
    path.unlink()
    data_file.save(path.parent, path.parent, found)
    assert data_file.load(path.parent, path.parent) == found


@target(tokens=(*VALUES, b'"config":{', b'"holder":{"pid":', b'"created_at":', b'"namespaces":['))
def runtime_record(data: bytes) -> None:
    """A damaged record is ignored."""
    for name, kind, config in (
        ("sandboxes", Sandbox, cri.PodSandboxConfig),
        ("containers", Container, cri.ContainerConfig),
    ):
        path = directory() / "records" / name / "a"
        path.mkdir(parents=True, exist_ok=True)
        (path / "record.json").write_bytes(data)
        Records(path.parent, kind, config).load()


@target(tokens=(*VALUES, b'"id":"sha256:', b'"layers":["', b'"tags":["'))
def image_record(data: bytes) -> None:
    """A damaged record is ignored, and what was read can be searched."""
    store = ImageStore(directory() / "store")
    (directory() / "store/images/a.json").write_bytes(data)
    store.load()
    store.find("busybox")
    store.find("sha256:" + "0" * 64)


@target(
    CdiError,
    tokens=(
        *VALUES,
        b'"cdiVersion":"0.6.0"',
        b'"kind":"a/b"',
        b'"devices":[{"name":"',
        b'"containerEdits":{',
        b'"deviceNodes":[{"path":"',
        b'"hooks":[',
        b'"mounts":[',
    ),
)
def cdi_spec(data: bytes) -> None:
    """A specification is accepted only if it is valid."""
    assert parse_spec(data).kind
