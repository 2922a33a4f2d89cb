"""Tests for the devices of a resource as their provider reports them."""

from __future__ import annotations

from math import inf

import pytest

from nodeagent.contracts.devices import DeviceHealth, ProvidedDevice
from nodeagent.errors import DeviceError
from nodeagent_plugins.devices.inventory import GRACE_SECONDS, MAX_ID, Resource, checked, expire

NAME = "example.com/widget"


def listed(*devices):
    return {device.id: device for device in devices}


@pytest.fixture
def resource():
    resource = Resource(NAME, 0.0)
    resource.update(listed(ProvidedDevice("a"), ProvidedDevice("b", healthy=False, message="hot")), 1.0)
    return resource


def test_update_returns_new_removed_and_changed_devices(resource):
    current = listed(ProvidedDevice("a"), ProvidedDevice("b", healthy=False, message="hot"))

    assert resource.update(current, 2.0) == set()
    assert resource.update({**current, "b": ProvidedDevice("b")}, 2.0) == {"b"}
    assert resource.update(current, 2.0) == {"b"}
    assert resource.update({**current, "b": ProvidedDevice("b", healthy=False, message="dead")}, 2.0) == {"b"}
    assert resource.update(listed(ProvidedDevice("a"), ProvidedDevice("c")), 2.0) == {"b", "c"}


def test_all_devices_are_new_after_a_disconnection(resource):
    resource.disconnect(2.0, "closed")
    assert resource.update(listed(ProvidedDevice("a")), 3.0) == {"a"}


def test_health_is_unknown_without_a_current_list(resource):
    assert resource.health("a") == DeviceHealth("a", "Healthy")
    assert resource.health("b") == DeviceHealth("b", "Unhealthy", "hot")
    assert resource.health("c") == DeviceHealth("c", "Unknown")
    resource.disconnect(2.0, "closed")
    assert resource.health("a") == DeviceHealth("a", "Unknown")


def test_only_healthy_devices_are_allocatable(resource):
    assert (resource.capacity(), resource.allocatable(0)) == (2, 1)
    resource.disconnect(2.0, "closed")
    assert (resource.capacity(), resource.allocatable(1)) == (2, 0)


def test_devices_in_use_are_allocatable_until_the_provider_returns():
    resource = Resource(NAME, 0.0, restored=2)
    assert [resource.allocatable(used) for used in (0, 1, 3)] == [0, 1, 2]
    assert resource.capacity() == 2


def test_first_disconnection_starts_the_grace_period(resource):
    resource.disconnect(2.0, "closed")
    resource.disconnect(9.0, "refused")
    assert (resource.disconnected_at, resource.error) == (2.0, "refused")


def test_devices_are_removed_at_the_end_of_the_grace_period(resource):
    resource.disconnect(0.0, "closed")

    assert expire([resource], GRACE_SECONDS - 1, 1000.0) == ([], 1.0)
    assert expire([resource], GRACE_SECONDS, 1000.0) == ([resource], inf)
    assert (resource.removed, resource.devices, resource.capacity()) == (True, {}, 0)
    assert expire([resource], GRACE_SECONDS, 1000.0) == ([], inf)


def test_connected_resource_does_not_expire(resource):
    assert expire([resource], 10 * GRACE_SECONDS, 0.0) == ([], inf)


@pytest.mark.parametrize(("wait", "limit"), [(1000.0, 1000.0), (1.0, GRACE_SECONDS)])
def test_resource_of_a_checkpoint_expires_once_its_pods_no_longer_wait(wait, limit):
    resource = Resource(NAME, 0.0, restored=2)

    assert expire([resource], limit - 1, wait) == ([], 1.0)
    assert expire([resource], limit, wait) == ([resource], inf)


@pytest.mark.parametrize(
    ("devices", "problem"),
    [
        ([ProvidedDevice("")], "invalid device ''"),
        ([ProvidedDevice("x" * (MAX_ID + 1))], "must have 1 to 253 characters"),
        ([ProvidedDevice("a\0")], "invalid device"),
        ([ProvidedDevice("a"), ProvidedDevice("a")], 'lists device "a" twice'),
        ([ProvidedDevice("a", numa_nodes=(-1,))], "invalid NUMA node"),
        ([ProvidedDevice("a", numa_nodes=(4096,))], "invalid NUMA node"),
    ],
)
def test_invalid_list_is_rejected(devices, problem):
    with pytest.raises(DeviceError, match=problem):
        checked(NAME, devices)


def test_longest_ids_and_all_numa_nodes_are_valid():
    devices = [ProvidedDevice("x" * MAX_ID, numa_nodes=(0, 4095))]
    assert checked(NAME, devices) == listed(*devices)
