"""Tests for the patch of the node status: only differences, and no repetition of fields that a server drops."""

from __future__ import annotations

import msgspec
import pytest

from nodeagent.model.node import NodeStatus
from nodeagent.model.wire import to_wire
from nodeagent.node.status_patch import StoredDifferently, altered_fields, status_patch

INFO = {"kernelVersion": "6.1", "swap": {"capacity": 4096}}


PLAIN = {
    "conditions": [],
    "capacity": {"cpu": "4"},
    "allocatable": {"cpu": "3"},
    "nodeInfo": INFO,
    "images": [],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
}


def status(**fields):
    return msgspec.convert({**PLAIN, **fields}, NodeStatus)


def patch_of(reported, altered=None, *, heartbeat=False, runtime_known=True, **fields):
    patch = status_patch(
        status(**fields), reported, heartbeat=heartbeat, runtime_known=runtime_known, altered=altered
    ).get("status", {})
    patch.pop("conditions", None)
    return patch


@pytest.fixture
def reported():
    return to_wire(status())


def test_unchanged_status_needs_no_patch(reported):
    assert status_patch(status(), reported, heartbeat=False) == {}


def test_changed_kernel_is_sent_without_the_other_fields(reported):
    assert patch_of(reported, nodeInfo={**INFO, "kernelVersion": "6.2"}) == {"nodeInfo": {"kernelVersion": "6.2"}}


def test_changed_swap_is_sent_and_removed_swap_is_deleted(reported):
    swap = {"capacity": 8192}
    assert patch_of(reported, nodeInfo={**INFO, "swap": swap}) == {"nodeInfo": {"swap": swap}}
    assert patch_of(reported, nodeInfo={"kernelVersion": "6.1"}) == {"nodeInfo": {"swap": None}}


def test_swap_that_the_server_drops_is_sent_again_only_with_a_heartbeat(reported):
    stored = {**reported, "nodeInfo": {**reported["nodeInfo"], "swap": None}}
    altered = altered_fields({"status": {"nodeInfo": {"swap": INFO["swap"]}}}, stored)

    assert altered == {"swap": StoredDifferently(INFO["swap"], None)}
    assert patch_of(stored) == {"nodeInfo": {"swap": INFO["swap"]}}
    assert patch_of(stored, altered) == {}
    assert patch_of(stored, altered, heartbeat=True) == {"nodeInfo": {"swap": INFO["swap"]}}


def test_fields_that_are_stored_as_sent_are_not_altered():
    sent = {"status": {"features": {"supplementalGroupsPolicy": True}, "nodeInfo": {"swap": {"capacity": 1}}}}

    assert altered_fields(sent, sent["status"]) == {}
    assert altered_fields({"status": {}}, {"features": {}}) == {}
    assert set(altered_fields(sent, {})) == {"features", "swap"}


def test_features_that_the_runtime_no_longer_reports_are_removed(reported):
    before = {**reported, "features": {"supplementalGroupsPolicy": True}}

    assert patch_of(before) == {"features": None}
    assert patch_of(before, runtime_known=False) == {}


def test_amounts_are_removed_except_for_extended_resources(reported):
    before = {
        **reported,
        "capacity": {"cpu": "2", "hugepages-2Mi": "0", "example.com/dongle": "4"},
        "allocatable": {"cpu": "3", "example.com/dongle": "4"},
    }

    assert patch_of(before) == {"capacity": {"cpu": "4", "hugepages-2Mi": None}}


def test_extended_resources_of_the_capacity_are_allocatable(reported):
    before = {**reported, "capacity": {"cpu": "4", "example.com/dongle": "4"}}

    assert patch_of(before) == {"allocatable": {"example.com/dongle": "4"}}


def test_addresses_are_replaced_and_never_removed(reported):
    address = {"type": "Hostname", "address": "a"}
    other = {**reported, "addresses": [{**address, "address": "b"}]}

    assert patch_of(other, addresses=[address]) == {"addresses": [address, {"$patch": "replace"}]}
    assert patch_of({**reported, "addresses": [address]}, addresses=[address]) == {}
    assert patch_of(other) == {}


def test_images_are_replaced_and_removed(reported):
    images = [{"names": ["a"], "sizeBytes": 1}]
    before = {**reported, "images": images}

    assert patch_of(before, images=images) == {}
    assert patch_of(reported, images=images) == {"images": images}
    assert patch_of(before) == {"images": None}


@pytest.mark.parametrize(
    ("before", "after", "sent"),
    [(None, [], None), (["a"], [], []), (["a"], ["a"], None), (["a"], ["b"], ["b"]), (["a"], None, None)],
)
def test_volumes_in_use_are_sent_completely_once_known(reported, before, after, sent):
    patch = patch_of({**reported, "volumesInUse": before}, volumesInUse=after)
    assert patch == ({} if sent is None else {"volumesInUse": sent})


def test_conditions_are_sent_with_each_change_and_heartbeat(reported):
    times = {"lastHeartbeatTime": "2024-01-01T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    condition = {"type": "Ready", "status": "True", **times}
    later = {**condition, "lastHeartbeatTime": "2024-01-01T00:05:00Z"}
    before = {**to_wire(status(conditions=[condition]))}
    current = status(conditions=[later])

    def types(patch):
        return [each["type"] for each in patch.get("status", {}).get("conditions", ())]

    assert types(status_patch(current, before, heartbeat=False)) == []
    assert types(status_patch(current, before, heartbeat=True)) == ["Ready"]
    assert types(status_patch(status(conditions=[{**later, "status": "False"}]), before, heartbeat=False)) == ["Ready"]
    assert types(status_patch(status(conditions=[later], capacity={}), before, heartbeat=False)) == ["Ready"]
