"""Tests for status patches."""

from nodeagent.model.pod import PodCondition, PodIp, PodStatus
from nodeagent.status.patch import status_patch


def test_equal_statuses_produce_no_patch():
    assert status_patch("u", PodStatus(phase="Running"), PodStatus(phase="Running")) is None


def test_patch_contains_only_changed_conditions_and_the_uid():
    ready = PodCondition(type="Ready", status="False", reason="ContainersNotReady")
    scheduled = PodCondition(type="PodScheduled", status="True")
    before = PodStatus(phase="Pending", conditions=[ready, scheduled])
    after = PodStatus(phase="Running", conditions=[PodCondition(type="Ready", status="True"), scheduled])

    patch = status_patch("u1", before, after)

    assert patch == {
        "metadata": {"uid": "u1"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": None}]},
    }


def test_cleared_field_is_sent_as_null():
    assert status_patch("u", PodStatus(reason="Old"), PodStatus())["status"] == {"reason": None}


def test_new_pod_addresses_replace_previous_ones():
    before = PodStatus(pod_ips=[PodIp(ip="10.0.0.1")])
    after = PodStatus(pod_ips=[PodIp(ip="10.0.0.2")])

    assert status_patch("u", before, after)["status"]["podIPs"] == [{"ip": "10.0.0.2"}, {"$patch": "replace"}]
