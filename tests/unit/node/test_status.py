"""Tests for the node status: conditions of a node object, and images."""

from __future__ import annotations

import pytest

from nodeagent.contracts.image_service import Image
from nodeagent.node.status import conditions_of, report_images


def test_conditions_have_the_times_and_texts_of_the_object() -> None:
    times = {"lastHeartbeatTime": "2024-01-02T00:00:00Z", "lastTransitionTime": "2024-01-01T00:00:00Z"}
    reported = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready", **times},
        {"type": "PIDPressure", "lastHeartbeatTime": None, "lastTransitionTime": None},
        {"status": "True"},
    ]

    found = conditions_of({"status": {"conditions": reported}})

    ready, pressure = found.pop("Ready"), found.pop("PIDPressure")
    assert (ready.status, ready.reason, ready.message) == ("True", "KubeletReady", "ready")
    assert (ready.last_heartbeat_time, ready.last_transition_time) == tuple(times.values())
    assert (pressure.status, pressure.last_heartbeat_time, pressure.last_transition_time) == ("", "", "")
    assert found == {}


def test_missing_object_or_status_has_no_conditions() -> None:
    assert conditions_of(None) == conditions_of({}) == conditions_of({"status": {"conditions": None}}) == {}


@pytest.mark.parametrize(("limit", "sizes"), [(-1, [9, 5, 1]), (0, []), (1, [9]), (2, [9, 5]), (5, [9, 5, 1])])
def test_largest_images_are_reported_up_to_the_limit(limit: int, sizes: list[int]) -> None:
    images = [Image(f"i{size}", size_bytes=size) for size in (5, 9, 1)]

    assert [image.size_bytes for image in report_images(images, limit)] == sizes
