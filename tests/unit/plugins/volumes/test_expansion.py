"""Tests for the expansion of volumes on the node."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.contracts.api import PERSISTENT_VOLUME_CLAIMS
from nodeagent.errors import ApiConflict, VolumeError
from nodeagent.testing import FakeApi, FakeClock
from nodeagent.testing.persistent_volumes import FakePersistentKind, uncertain

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


def grow(
    host: Host,
    *,
    status: dict[str, Any] | None = None,
    size: str = "2Gi",
    read_only: bool = False,
    request: str = "2Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
) -> None:
    """Set the size of the PersistentVolume; the claim has 1Gi."""
    spec = host.claims.add("data", size=size, claim_size="1Gi", read_only=read_only, access_modes=modes)
    assert host.api is not None and spec.claim is not None
    host.api.put(
        PERSISTENT_VOLUME_CLAIMS,
        {
            "metadata": {"name": "data", "namespace": "default", "uid": "uid-data"},
            "spec": {
                "volumeName": "pv-data",
                "accessModes": list(modes),
                "resources": {"requests": {"storage": request}},
            },
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, **(status or {})},
        },
    )


def pending(size: str, status: str = "NodeResizePending") -> dict[str, Any]:
    """Return the status of a claim whose expansion the controller tracks."""
    return {"allocatedResources": {"storage": size}, "allocatedResourceStatuses": {"storage": status}}


def failed(status: str) -> dict[str, Any]:
    return {"allocatedResourceStatuses": {"storage": status}}


def condition(code: str) -> dict[str, Any]:
    message = f"failed to expand pvc with rpc error: code = {code} desc = no"
    return {"conditions": [{"type": "NodeResizeError", "status": "True", "message": message}]}


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


async def test_source_of_a_mounted_volume_is_read_again_every_five_minutes(host: Host) -> None:
    grow(host, size="1Gi")
    for seconds in (0, 60, 60, 200):
        await host.clock.advance(seconds)
        await (await host.begin(claim_pod()))
    assert [known is None for known in host.claims.known] == [True, False, False, True]


async def test_claims_of_many_volumes_are_read_one_per_second(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent_plugins.volumes.population.CLAIMS_OF_EACH_SYNC", 0)
    grow(host, size="1Gi")
    reads = []
    for seconds in (0, 0.25, 1, 0.25, 0.25, 0.25, 0.25):
        await host.clock.advance(seconds)
        task = await host.begin(claim_pod())
        await host.clock.advance(0)
        assert task.done()
        reads.append(len(host.claims.known))

    assert reads == [1, 1, 2, 2, 2, 2, 3]


class PlainKind(FakePersistentKind):
    """A kind without the optional protocols whose results depend on the claim."""

    expand = needs_refresh = attachable = None  # type: ignore[assignment]


async def test_claim_is_read_every_five_minutes_if_its_kind_does_not_expand(host: Host) -> None:
    await host.kill()
    host.kind = PlainKind(host.root, lambda uid: uid in host.running)
    host.start()
    host.claims.add("data")
    for seconds in (0, 60, 60, 200):
        await host.clock.advance(seconds)
        task = await host.begin(claim_pod())
        await host.clock.advance(0)
        assert task.done()
    assert len(host.claims.known) == 2


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


class TestRecovery:
    """Expansions that the controller tracks in ``allocatedResourceStatuses``, so that users can reduce the size."""

    @pytest.fixture(params=[(1, 29), (1, 32), (1, 34)], ids=["1.29", "1.32", "1.34"])
    def release(self, request: pytest.FixtureRequest) -> Release:
        return Release(*request.param)

    @pytest.fixture
    async def host(self, tmp_path: Path, clock: FakeClock, api: FakeApi, release: Release) -> AsyncIterator[Host]:
        gates = build_gates({} if release >= Release(1, 34) else {"RecoverVolumeExpansionFailure": True}, release)
        host = Host(tmp_path, clock, api, release=SelectedRelease(release), gates=gates)
        host.start()
        yield host
        host.kind.recover()
        await host.kill()

    async def test_expansion_is_announced_and_its_status_removed(self, host: Host, api: FakeApi) -> None:
        grow(host, status=pending("2Gi"))
        assert (await host.begin(claim_pod())).done()
        assert host.kind.expanded == [2 * GIB]
        assert patches(api) == [
            {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}},
            {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": None}},
        ]

    async def test_interrupted_expansion_continues(self, host: Host, api: FakeApi) -> None:
        grow(host, status=pending("2Gi", "NodeResizeInProgress"))
        assert (await host.begin(claim_pod())).done()
        assert host.kind.expanded == [2 * GIB] and len(patches(api)) == 1

    @pytest.mark.parametrize("status", ["ControllerResizeInProgress", "NodeResizeFailed", "NodeResizeInfeasible"])
    async def test_volume_is_mounted_if_the_controller_must_act_first(
        self, host: Host, api: FakeApi, status: str
    ) -> None:
        grow(host, status=pending("2Gi", status))
        assert (await host.begin(claim_pod())).done()
        await host.clock.advance(200)
        assert host.kind.expanded == [] and patches(api) == []

    async def test_uncertain_failure_changes_no_status_and_is_repeated(self, host: Host, api: FakeApi) -> None:
        grow(host, status=pending("2Gi"))
        host.kind.fail("expand", uncertain("rpc error: code = DeadlineExceeded desc = slow"))
        task = await host.begin(claim_pod())
        assert patches(api) == [{"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}]
        assert host.manager.states()[0].phase == "Uncertain"
        await host.clock.advance(0.5)
        assert task.done() and host.kind.expanded == [2 * GIB]

    async def test_certain_failure_is_recorded_in_the_claim(self, host: Host, api: FakeApi, release: Release) -> None:
        grow(host, status=pending("2Gi"))
        host.kind.fail("expand", VolumeError("rpc error: code = Internal desc = no"))
        task = await host.begin(claim_pod())
        assert patches(api)[1:] == [condition("Internal") if release >= Release(1, 32) else failed("NodeResizeFailed")]
        await host.clock.advance(0.5)
        assert task.done()
        assert host.kind.expanded == ([2 * GIB] if release >= Release(1, 32) else [])

    async def test_in_use_failure_does_not_delay_the_mount(self, host: Host) -> None:
        grow(host, status=pending("2Gi"))
        host.kind.fail("expand", VolumeError("in use", reason="InUse"))
        assert (await host.begin(claim_pod())).done()
        await host.clock.advance(200)
        assert host.kind.expanded == []

    async def test_reduced_size_of_an_expansion_is_used(self, host: Host, api: FakeApi, release: Release) -> None:
        grow(host, size="3Gi", status=pending("2Gi"))
        assert (await host.begin(claim_pod())).done()
        await (await host.begin(claim_pod()))
        await host.clock.advance(200)
        assert host.kind.expanded == [(2 if release >= Release(1, 32) else 3) * GIB]

    async def test_rejected_status_fails_the_expansion(self, host: Host, api: FakeApi) -> None:
        grow(host, size="1Gi")
        await (await host.begin(claim_pod()))
        grow(host, status=pending("2Gi"))
        api.fail("patch", ApiConflict("the object has been modified"))
        await (await host.begin(claim_pod()))
        await host.clock.advance(0)
        assert host.recorder.of("VolumeResizeFailed")[0].note == (
            'NodeExpandVolume.NodeExpandVolume failed for volume "pv-data" : MountVolume.NodeExpandVolume failed to '
            "mark node expansion in progress: the object has been modified"
        )
        await host.clock.advance(0.5)
        assert host.kind.expanded == [2 * GIB]

    async def test_infeasible_size_is_left_to_the_controller(self, host: Host, api: FakeApi, release: Release) -> None:
        grow(host, status=pending("2Gi"))
        host.kind.fail("expand", VolumeError("rpc error: code = OutOfRange desc = no", reason="Infeasible"))
        task = await host.begin(claim_pod())
        expected = failed("NodeResizeFailed")
        if release >= Release(1, 32):
            expected = {**condition("OutOfRange"), **failed("NodeResizeInfeasible")}
        assert patches(api)[1:] == [expected]
        await host.clock.advance(0.5)
        assert task.done() and host.kind.expanded == []

        # The controller has accepted the smaller size that the user requested next.
        grow(host, status=pending("1536Mi"))
        await (await host.begin(claim_pod()))
        await host.clock.advance(0)
        assert host.kind.expanded == [int(1.5 * GIB) if release >= Release(1, 32) else 2 * GIB]

    @pytest.mark.parametrize("release", [Release(1, 34)])
    async def test_second_failure_after_a_changed_request_is_infeasible(self, host: Host, api: FakeApi) -> None:
        grow(host, status=pending("2Gi"))
        host.kind.fail("expand", VolumeError("rpc error: code = Internal desc = no"), times=2)
        task = await host.begin(claim_pod())
        assert patches(api)[1:] == [condition("Internal")]
        grow(host, status=pending("2Gi", "NodeResizeInProgress"), request="1500Mi")
        await host.clock.advance(0.5)
        assert patches(api)[2:] == [{**condition("Internal"), **failed("NodeResizeInfeasible")}]
        await host.clock.advance(1)
        assert task.done() and host.kind.expanded == []

    @pytest.mark.parametrize("release", [Release(1, 34)])
    async def test_first_failure_after_a_changed_request_is_repeated(self, host: Host, api: FakeApi) -> None:
        grow(host, status=pending("2Gi"), request="1500Mi")
        host.kind.fail("expand", VolumeError("rpc error: code = Internal desc = no"))
        task = await host.begin(claim_pod())
        assert patches(api)[1:] == [condition("Internal")]
        task.cancel()

    async def test_other_nodes_expand_a_shared_volume_without_a_status(self, host: Host, api: FakeApi) -> None:
        grow(host, size="1Gi", modes=["ReadWriteMany"])
        await (await host.begin(claim_pod()))
        status = {"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}}
        grow(host, status=status, modes=["ReadWriteMany"])
        await (await host.begin(claim_pod()))
        await host.clock.advance(0)
        assert host.kind.expanded == [2 * GIB] and patches(api) == []
