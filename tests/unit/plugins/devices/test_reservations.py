"""Tests for topology hints of devices."""

from __future__ import annotations

from nodeagent.contracts.devices import ProvidedDevice
from nodeagent.contracts.topology import Hint
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.devices.allocations import Assignment
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.reservations import Reservations

WIDGET = "example.com/widget"
POD = make_pod(containers=[make_container("main", resources={"limits": {WIDGET: "1"}})])


def hints(reservations):
    container = reservations.container_hints(POD, POD.spec.containers[0])
    assert container == reservations.pod_hints(POD)
    return container


def preferred(*nodes):
    return [Hint(frozenset({node}), preferred=True) for node in nodes]


def test_hints_are_those_of_free_devices_of_a_connected_provider():
    reservations, resource = Reservations(), Resource(WIDGET, 0.0)
    assert hints(reservations) == {}
    reservations.resources[WIDGET] = resource
    assert hints(reservations) == {}

    resource.update({f"w{node}": ProvidedDevice(f"w{node}", numa_nodes=(node,)) for node in (0, 1)}, 1.0)

    found = hints(reservations)[WIDGET]
    assert [hint for hint in found if hint.preferred] == preferred(0, 1)


def test_hints_are_those_of_the_held_devices():
    reservations, resource = Reservations(), Resource(WIDGET, 0.0)
    assignment = Assignment(("w1",), {"w1": (1,)})
    reservations.allocations.add(POD.uid, "main", WIDGET, assignment)
    assert [hint for hint in hints(reservations)[WIDGET] if hint.preferred] == preferred(1)

    reservations.resources[WIDGET] = resource
    resource.update({"w1": ProvidedDevice("w1", numa_nodes=(0,)), "w2": ProvidedDevice("w2", numa_nodes=(2,))}, 1.0)
    assert [hint for hint in hints(reservations)[WIDGET] if hint.preferred] == preferred(1)
