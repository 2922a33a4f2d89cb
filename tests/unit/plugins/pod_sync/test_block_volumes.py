"""Tests for block volumes as devices of containers."""

from __future__ import annotations

import pytest

from nodeagent.contracts.runtime import Device
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ContainerError
from nodeagent.testing.pods import make_container
from nodeagent_plugins.pod_sync.block_volumes import volume_devices


def test_block_volume_is_a_device_of_the_container():
    container = make_container(volume_devices=[{"name": "data", "devicePath": "/dev/data"}])
    volume = MountedVolume("data", "/pods/uid/volumeDevices/pv", device_path="/pods/uid/volumeDevices/pv")

    assert volume_devices(container, {"data": volume}) == [Device("/dev/data", "/pods/uid/volumeDevices/pv", "mrw")]


def test_read_only_claim_permits_reading_only():
    container = make_container(volume_devices=[{"name": "data", "devicePath": "/dev/data"}])
    volume = MountedVolume("data", "/dev/link", readonly=True, device_path="/dev/link")

    assert volume_devices(container, {"data": volume})[0].permissions == "r"


@pytest.mark.parametrize("volumes", [{}, {"data": MountedVolume("data", "/directory")}])
def test_volume_without_a_device_stops_the_container(volumes):
    container = make_container(volume_devices=[{"name": "data", "devicePath": "/dev/data"}])

    with pytest.raises(ContainerError, match="cannot find volume 'data' to pass into container") as raised:
        volume_devices(container, volumes)

    assert raised.value.reason == "CreateContainerConfigError"
