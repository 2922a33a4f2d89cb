"""Tests for the health of devices from the device manager and the claim manager."""

from __future__ import annotations

from nodeagent.contracts.claims import ClaimedDeviceHealth
from nodeagent.contracts.devices import DeviceHealth
from nodeagent.status.device_health import DeviceHealthReport
from nodeagent.testing import FakePodDirectory, make_pod

HEALTH = [DeviceHealth("gpu-0", "Healthy")]


class Devices:
    def health(self, pod_uid, container):
        return {"example.com/widget": HEALTH}


class Claims:
    def is_in_use(self, pod_uid):
        return pod_uid == "uid-web"

    def health(self, pod, container):
        return [ClaimedDeviceHealth("claim:gpu", HEALTH)]


def test_health_of_claims_is_added():
    report = DeviceHealthReport(Devices(), Claims(), FakePodDirectory(make_pod("web"), make_pod("other")))

    assert report.of_container("uid-web", "main") == {"example.com/widget": HEALTH, "claim:gpu": HEALTH}
    assert report.of_container("uid-other", "main") == {"example.com/widget": HEALTH}
    assert report.of_container("uid-unknown", "main") == {"example.com/widget": HEALTH}


def test_disabled_claims_report_no_health():
    report = DeviceHealthReport(Devices(), None, FakePodDirectory(make_pod("web")))

    assert report.of_container("uid-web", "main") == {"example.com/widget": HEALTH}
