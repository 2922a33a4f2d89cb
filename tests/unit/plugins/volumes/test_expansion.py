"""Tests for the expansion of volumes on the node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.api import PERSISTENT_VOLUME_CLAIMS
from nodeagent.errors import VolumeError
from nodeagent.testing import FakeApi, FakeClock

from .host import Host, claim_pod

GIB = 1 << 30


@pytest.fixture
def api(clock: FakeClock) -> FakeApi:
    return FakeApi(clock)


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock, api: FakeApi) -> AsyncIterator[Host]:
    host = Host(tmp_path, clock, api)
    host.start()
    yield host
    host.kind.recover()
    await host.kill()


def grow(host: Host, *, status: dict[str, Any] | None = None, size: str = "2Gi", read_only: bool = False) -> None:
    """Set the size of the PersistentVolume; the claim has 1Gi."""
    spec = host.claims.add("data", size=size, claim_size="1Gi", read_only=read_only)
    assert host.api is not None and spec.claim is not None
    host.api.put(
        PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": "data", "namespace": "default", "uid": "uid-data"},
            "spec": {"volumeName": "pv-data"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, **(status or {})},
        },
    )


def patches(api: FakeApi) -> list[Any]:
    return [request.body["status"] for request in api.made("patch", PERSISTENT_VOLUME_CLAIMS)]


async def test_small_volume_is_expanded_before_it_counts_as_mounted(host: Host, api: FakeApi) -> None:
    grow(host, status={"conditions": [{"type": "FileSystemResizePending", "status": "True"}]})
    host.kind.fail("expand", VolumeError("rpc error: code = Internal desc = no"))
    task = await host.begin(claim_pod())
    assert host.manager.states()[0].phase == "Uncertain"
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.Setup failed while expanding volume for volume "pv-data" : rpc error: code = Internal desc = no'
    )
    await host.clock.advance(0.5)

    assert task.done() and host.kind.expanded == [2 * GIB]
    assert patches(api) == [
        {"capacity": {"storage": "2Gi"}, "conditions": [{"$patch": "delete", "type": "FileSystemResizePending"}]}
    ]
    assert [event.note for event in host.recorder.of("FileSystemResizeSuccessful")] == [
        'MountVolume.NodeExpandVolume succeeded for volume "pv-data" node-1'
    ] * 2


async def test_volume_in_use_is_expanded_at_a_pod_sync(host: Host, api: FakeApi) -> None:
    grow(host, size="1Gi")
    await (await host.begin(claim_pod()))
    grow(host)
    host.kind.fail("expand", VolumeError("rpc error: code = Internal desc = no"))
    await (await host.begin(claim_pod()))
    await host.clock.advance(0)
    assert host.recorder.of("VolumeResizeFailed")[0].note == (
        'NodeExpandVolume.NodeExpandVolume failed for volume "pv-data" : rpc error: code = Internal desc = no'
    )
    await host.clock.advance(0.5)
    assert host.kind.expanded == [2 * GIB] and len(patches(api)) == 1
    await (await host.begin(claim_pod()))
    await host.clock.advance(200)
    assert host.kind.expanded == [2 * GIB]


async def test_volume_that_cannot_grow_in_use_is_not_tried_again(host: Host) -> None:
    grow(host, size="1Gi")
    await (await host.begin(claim_pod()))
    grow(host)
    host.kind.fail("expand", VolumeError("in use", reason="InUse"))
    await (await host.begin(claim_pod()))
    await host.clock.advance(200)
    await host.manager.prepare(claim_pod())
    await host.clock.advance(200)
    assert host.kind.expanded == [] and host.recorder.of("VolumeResizeFailed") == []


async def test_read_only_volume_records_an_event(host: Host, api: FakeApi) -> None:
    grow(host, read_only=True)
    task = await host.begin(claim_pod())
    assert task.done() and host.kind.expanded == [] and patches(api) == []
    assert host.recorder.of("FileSystemResizeFailed")[0].note == (
        'MountVolume.NodeExpandVolume failed for volume "pv-data" requested read-only file system'
    )
