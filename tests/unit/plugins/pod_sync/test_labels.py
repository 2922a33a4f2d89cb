"""Tests for annotations of containers, and the stop settings that are read from them after a restart."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nodeagent.contracts.runtime import (
    ANNOTATION_DELETION_GRACE,
    ANNOTATION_GRACE,
    ANNOTATION_HASH,
    ANNOTATION_MESSAGE_PATH,
    ANNOTATION_MESSAGE_POLICY,
    ANNOTATION_PORTS,
    ANNOTATION_PRE_STOP,
    ANNOTATION_RESTART_COUNT,
)
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.labels import (
    ANNOTATION_BACKOFF,
    ANNOTATION_SANDBOX,
    StopRecord,
    container_annotations,
    number,
    recorded_hash,
    stop_record,
)

HOOK = {"preStop": {"exec": {"command": ["stop"]}}}


def annotations_of(pod=None, attempt=0, backoff=0, **container):
    return container_annotations(
        pod or make_pod(), make_container(**container), attempt, spec_hash="h", sandbox_id="s", backoff_seconds=backoff
    )


def read(annotations):
    return SimpleNamespace(annotations=annotations)


def test_container_has_the_annotations_of_its_fields_only():
    assert annotations_of() == {
        ANNOTATION_HASH: "h",
        ANNOTATION_RESTART_COUNT: "0",
        ANNOTATION_MESSAGE_PATH: "/dev/termination-log",
        ANNOTATION_MESSAGE_POLICY: "File",
        ANNOTATION_SANDBOX: "s",
        ANNOTATION_GRACE: "30",
    }
    fields = {"lifecycle": {"postStart": {"exec": {"command": ["a"]}}}, "termination_message_path": ""}
    assert annotations_of(**fields) == annotations_of()
    pod = make_pod(metadata={"deletion_grace_period_seconds": 0}, termination_grace_period_seconds=None)
    assert annotations_of(pod)[ANNOTATION_DELETION_GRACE] == "0" and ANNOTATION_GRACE not in annotations_of(pod)


@pytest.mark.parametrize(("attempt", "backoff", "stored"), [(0, 0, None), (1, 0, "0"), (0, 10, "10"), (2, 20, "20")])
def test_back_off_is_stored_for_restarted_containers(attempt, backoff, stored):
    assert annotations_of(attempt=attempt, backoff=backoff).get(ANNOTATION_BACKOFF) == stored


def test_stop_settings_are_read_as_they_were_written():
    container = make_container(lifecycle=HOOK, ports=[{"containerPort": 80}])
    pod = make_pod(metadata={"deletion_grace_period_seconds": 7})
    written = annotations_of(pod, lifecycle=HOOK, ports=[{"containerPort": 80}])

    record = stop_record(read(written))

    assert record == StopRecord(7, container.lifecycle.pre_stop, tuple(container.ports))
    del written[ANNOTATION_DELETION_GRACE]
    assert stop_record(read(written)).grace_seconds == 30


@pytest.mark.parametrize("key", [ANNOTATION_PRE_STOP, ANNOTATION_PORTS])
def test_invalid_stop_settings_count_as_unset(key):
    assert stop_record(read({key: "{"})) == StopRecord()


@pytest.mark.parametrize(("text", "value"), [("7", 7), ("0", 0), ("-1", None), ("x", None), ("", None), ("٣", None)])
def test_number_is_a_plain_decimal(text, value):
    assert number({"key": text}, "key") == value
    assert number({}, "key") is None


def test_hash_of_another_agent_is_unknown():
    assert recorded_hash(read({ANNOTATION_HASH: "h", ANNOTATION_SANDBOX: "s"})) == "h"
    assert recorded_hash(read({ANNOTATION_HASH: "h"})) is None
