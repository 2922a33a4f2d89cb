"""Tests for the health of devices: changes, expiry, and the status of containers."""

from __future__ import annotations

import pytest

from nodeagent.contracts.claims import ClaimedDeviceHealth, ReportedHealth
from nodeagent.contracts.devices import DeviceHealth
from nodeagent_plugins.claims.device_health import HealthCache
from tests.unit.plugins.claims.conftest import GPU, add_claim, claim_pod

DEVICE = ("node-1", "gpu-0")


@pytest.fixture
def health(clock):
    return HealthCache(clock)


def test_changes_are_returned_once(health):
    reported = [ReportedHealth(*DEVICE, "Healthy"), ReportedHealth("node-1", "gpu-1", "Healthy")]
    assert health.update(GPU, reported) == {DEVICE, ("node-1", "gpu-1")}
    assert health.update(GPU, reported) == set()
    assert health.update(GPU, [ReportedHealth(*DEVICE, "Healthy", "warm")]) == {DEVICE, ("node-1", "gpu-1")}
    assert health.forget(GPU) == {DEVICE}


async def test_report_expires(health, clock):
    health.update(GPU, [ReportedHealth(*DEVICE, "Healthy", timeout_seconds=10)])
    assert health.next_expiry() == clock.now() + 10
    await clock.advance(10)

    assert health.expired() == {GPU: {DEVICE}}
    assert health.expired() == {}


@pytest.mark.parametrize(("seconds", "expected"), [(9, "Healthy"), (10, "Unknown")])
async def test_status_is_unknown_after_the_expiry(manager, api, clock, seconds, expected):
    add_claim(api, "uid-web")
    await manager.prepare_pod(pod := claim_pod())
    manager.health_cache.update(GPU, [ReportedHealth(*DEVICE, "Healthy", timeout_seconds=10)])
    await clock.advance(seconds)

    (claim,) = manager.health(pod, pod.spec.containers[0])
    assert [device.health for device in claim.devices] == [expected]


async def test_longest_message_is_not_shortened(manager, api):
    add_claim(api, "uid-web")
    await manager.prepare_pod(pod := claim_pod())
    manager.health_cache.update(GPU, [ReportedHealth(*DEVICE, "Unhealthy", "m" * 1024)])

    (claim,) = manager.health(pod, pod.spec.containers[0])
    assert [device.message for device in claim.devices] == ["m" * 1024]


@pytest.mark.parametrize(("request_name", "suffix"), [("", ""), ("one", "/one")])
async def test_status_of_a_container_names_claim_and_device(manager, api, request_name, suffix):
    add_claim(api, "uid-web")
    pod = claim_pod(request=request_name)
    await manager.prepare_pod(pod)
    assert manager.health(pod, pod.spec.containers[0]) == []
    unknown = DeviceHealth("example.com/gpu=c-1", "Unknown", "")
    assert manager.devices(pod, pod.spec.containers[0]) == [ClaimedDeviceHealth(f"claim:gpu{suffix}", [unknown])]
    manager.health_cache.update(GPU, [ReportedHealth(*DEVICE, "Unhealthy", "m" * 2000)])

    device = DeviceHealth("example.com/gpu=c-1", "Unhealthy", "m" * 1021 + "...")
    assert manager.health(pod, pod.spec.containers[0]) == [ClaimedDeviceHealth(f"claim:gpu{suffix}", [device])]


async def test_holders_are_synced_after_a_change(manager, api, context):
    add_claim(api, "uid-web")
    await manager.prepare_pod(claim_pod())

    manager.health_changed(GPU, {("node-1", "gpu-7")})
    assert context.pods.triggered == []
    manager.health_changed(GPU, {DEVICE})
    assert context.pods.triggered == ["uid-web"]
