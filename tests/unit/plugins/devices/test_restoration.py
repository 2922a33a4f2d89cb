"""Tests for allocations from before a restart."""

from __future__ import annotations

import json

import pytest

from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.runtime import (
    ANNOTATION_DEVICES,
    LABEL_CONTAINER_NAME,
    LABEL_POD_UID,
    ContainerInfo,
    ContainerState,
)
from nodeagent_plugins.devices.allocations import Assignment
from nodeagent_plugins.devices.checkpoint import CheckpointData, Entry
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.reservations import Reservations
from nodeagent_plugins.devices.restoration import (
    annotation,
    restore_allocations,
    restore_from_containers,
    restore_resources,
    to_checkpoint,
)
from nodeagent_plugins.devices.wire import encode_response

WIDGET = "example.com/widget"


@pytest.fixture
def reservations():
    return Reservations()


def container(uid="uid-web", name="main", state=ContainerState.RUNNING, devices=None):
    text = json.dumps({WIDGET: ["a"]}) if devices is None else devices
    return ContainerInfo(
        id="c",
        sandbox_id="s",
        name=name,
        attempt=0,
        state=state,
        created_at=1,
        image="i",
        image_ref="i",
        labels={LABEL_POD_UID: uid, LABEL_CONTAINER_NAME: name},
        annotations={ANNOTATION_DEVICES: text} if text else {},
    )


def allocated(reservations):
    return [(uid, name, resource, each.ids) for (uid, name), resource, each in reservations.allocations]


def test_devices_of_a_running_container_are_restored(reservations):
    assert restore_from_containers(reservations, [container()], 5.0) == 1

    assert [(u, n, r, list(ids)) for u, n, r, ids in allocated(reservations)] == [("uid-web", "main", WIDGET, ["a"])]
    resource = reservations.resources[WIDGET]
    assert (resource.disconnected_at, resource.restored) == (5.0, 0)
    assert restore_from_containers(reservations, [container()], 6.0) == 0


@pytest.mark.parametrize(
    "other",
    [
        container(state=ContainerState.EXITED),
        container(uid=""),
        container(name=""),
        container(devices=""),
        container(devices="{"),
        container(devices=json.dumps({"cpu": ["a"]})),
    ],
)
def test_other_containers_have_no_devices(reservations, other):
    assert restore_from_containers(reservations, [other], 5.0) == 0
    assert allocated(reservations) == []


def test_annotation_lists_devices_by_resource():
    devices = {WIDGET: Assignment(("b", "a")), "a.example/x": Assignment(("1",))}

    assert json.loads(annotation(devices)[ANNOTATION_DEVICES]) == {"a.example/x": ["1"], WIDGET: ["b", "a"]}


def entry(resource=WIDGET, response=None):
    content = encode_response(DeviceResponse()) if response is None else response
    return Entry("uid-web", "main", resource, {0: ("a",), 1: ("a", "b"), -1: ("c",)}, content)


def test_allocations_of_a_checkpoint_have_their_numa_nodes(reservations):
    restore_allocations(reservations, CheckpointData([entry()], {}), current=True)

    assignment = reservations.allocations.get("uid-web", "main", WIDGET)
    assert (assignment.ids, assignment.nodes) == (("a", "b", "c"), {"a": (0, 1), "b": (1,)})
    assert assignment.response == DeviceResponse()


def test_damaged_and_outdated_allocations_are_dropped(reservations):
    restore_allocations(reservations, CheckpointData([entry()], {}), current=False)
    restore_allocations(reservations, CheckpointData([entry(response=b"\xff")], {}), current=True)

    assert allocated(reservations) == []


def test_resources_of_a_checkpoint_are_added_except_those_with_a_provider(reservations):
    connected, lost = Resource("a.example/on", 0.0, connected=True), Resource("a.example/off", 0.0)
    reservations.resources |= {each.name: each for each in (connected, lost)}
    registered = {WIDGET: ("a", "b"), "cpu": ("1",), connected.name: ("a",), lost.name: ("a",)}

    restore_resources(reservations, CheckpointData([], registered), 7.0)

    assert set(reservations.resources) == {WIDGET, connected.name, lost.name}
    assert (reservations.resources[WIDGET].restored, reservations.resources[WIDGET].disconnected_at) == (2, 7.0)
    assert (connected.restored, lost.restored) == (None, 1)


def test_checkpoint_lists_allocations_and_healthy_devices(reservations):
    known, removed = Resource(WIDGET, 0.0, healthy=frozenset("ba")), Resource("a.example/gone", 0.0, removed=True)
    restored = Resource("a.example/before", 0.0, restored=3, healthy=frozenset("x"))
    reservations.resources |= {each.name: each for each in (known, removed, restored)}
    reservations.allocations.add("u", "main", WIDGET, Assignment(("a",), response=DeviceResponse({"A": "1"})))
    reservations.allocations.add("u", "reserved", WIDGET, Assignment(("b",)))

    data = to_checkpoint(reservations)

    assert [(each.uid, each.container) for each in data.entries] == [("u", "main")]
    assert data.registered == {"a.example/before": (), WIDGET: ["a", "b"]}
    assert to_checkpoint(reservations).entries[0] is data.entries[0]


def test_later_checkpoint_does_not_replace_known_resources(reservations):
    later = Resource(WIDGET, 3.0)
    reservations.resources[WIDGET] = later
    restore_resources(reservations, CheckpointData([], {WIDGET: ("a",), "x": ("b",)}), 7.0)

    assert reservations.resources == {WIDGET: later} and later.restored == 1
