"""Tests for the report of volumes and the diagnosis of claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.contracts.stats import FilesystemStats, PodUsage, VolumeUsage
from nodeagent.contracts.volume_report import VolumesRequest
from nodeagent.errors import VolumeError
from nodeagent.podworker.stages import volume_text
from nodeagent.testing import FakeClock
from nodeagent_plugins.volumes.report import VolumeReporter

from .host import Host, claim_pod, running


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock) as host:
        yield host


async def test_report_contains_claim_error_and_next_attempt(host: Host) -> None:
    pod = claim_pod()
    host.context.pods.add(pod)  # type: ignore[attr-defined]
    host.kind.fail("mount_device", VolumeError("rpc error: code = Internal desc = broken"), times=2)
    await host.begin(pod)
    await host.clock.advance(0.75)
    report = await VolumeReporter(host.context, host.manager).report(VolumesRequest())
    (line,) = report.volumes

    assert (line.namespace, line.pod, line.volume, line.claim, line.name) == ("default", "web", "v", "data", "pv-data")
    assert (line.state, line.driver) == ("Staging", "kubernetes.io/fake:fake.example")
    assert (line.error, line.retry_seconds) == ("rpc error: code = Internal desc = broken", 0.75)


async def test_claim_that_cannot_be_resolved_is_reported(host: Host) -> None:
    host.context.pods.add(pod := claim_pod(claim="other"))  # type: ignore[attr-defined]
    task = await host.begin(pod)
    with pytest.raises(VolumeError, match="PVC is not bound"):
        await task
    reporter = VolumeReporter(host.context, host.manager)
    (line,) = (await reporter.report(VolumesRequest())).volumes
    assert (line.pod, line.volume, line.claim, line.state) == ("web", "v", "other", "Resolving")
    assert line.error == "error processing PVC default/other: PVC is not bound"

    await host.end(pod)
    assert (await reporter.report(VolumesRequest())).volumes == []


async def test_report_contains_the_last_measurement(host: Host) -> None:
    pod = claim_pod()
    host.context.pods.add(pod)  # type: ignore[attr-defined]
    await (await host.begin(pod))
    usage = VolumeUsage("v", FilesystemStats(0, available_bytes=5, used_bytes=3))
    host.context.stats.set(PodUsage(pod.uid, "default", "web", 0, volumes=[usage]))  # type: ignore[attr-defined]
    reporter = VolumeReporter(host.context, host.manager)
    (line,) = (await reporter.report(VolumesRequest("default", "web"))).volumes

    assert (line.state, line.used_bytes, line.available_bytes, line.error) == ("Mounted", 3, 5, "")
    assert (await reporter.report(VolumesRequest("other"))).volumes == []


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        ("", "", ["db", "web"]),
        ("default", "", ["db", "web"]),
        ("", "web", ["web"]),
        ("default", "other", []),
        ("other", "web", []),
    ],
)
async def test_volumes_are_selected_by_namespace_and_pod(
    host: Host, namespace: str, name: str, expected: list[str]
) -> None:
    for each in ("web", "db"):
        host.context.pods.add(pod := claim_pod(each))  # type: ignore[attr-defined]
        await (await host.begin(pod))

    report = await VolumeReporter(host.context, host.manager).report(VolumesRequest(namespace, name))

    assert [line.pod for line in report.volumes] == expected


async def test_volume_without_a_pod_is_reported_without_selection(host: Host) -> None:
    await (await host.begin(claim_pod()))
    reporter = VolumeReporter(host.context, host.manager)

    lines = [(await reporter.report(VolumesRequest(*fields))).volumes for fields in ((), ("default",), ("", "web"))]

    assert [[(line.pod, line.namespace) for line in found] for found in lines] == [[("", "")], [], []]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            {"phase": "Staging", "call": "MountDevice", "running_since": 90.0},
            "v (claim data, csi:x): Staging, MountDevice for 10 s",
        ),
        (
            {"phase": "Resolving", "plugin": "", "error": "PVC is not bound"},
            "v (claim data): Resolving, PVC is not bound",
        ),
        (
            {"phase": "Uncertain", "call": "SetUp", "error": "no", "next_attempt": 104.0},
            "v (claim data, csi:x): Uncertain, SetUp failed: no, next attempt in 4 s",
        ),
    ],
)
def test_diagnosis_names_claim_call_error_and_next_attempt(state: dict[str, str], text: str) -> None:
    fields = {"plugin": "csi:x", **state}
    volume = VolumeState("u", "v", "pv", "k", claim="data", **fields)  # type: ignore[arg-type]
    assert volume_text(volume, 100.0) == text
