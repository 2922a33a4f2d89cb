"""Tests for user and volume mounts in container statuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest

from nodeagent.contracts.runtime import ContainerUser, ImageMount, Mount
from nodeagent.model.pod import PodStatus
from nodeagent.model.wire import to_wire
from nodeagent.status.container_details import user_status, volume_mount_statuses
from nodeagent.status.generate import PodStatusInputs, generate_status
from nodeagent.testing import FakeRuntime, make_container, make_pod

MOUNTS = [
    {"name": "a", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": "IfPossible"},
    {"name": "b", "mountPath": "b", "readOnly": True},
    {"name": "c", "mountPath": "/c"},
]


def run_of(**fields):
    pod, runtime = make_pod("web"), FakeRuntime()
    runtime.start("main", pod)
    return replace(runtime.pod(pod.uid).containers[0], **fields)


@pytest.mark.parametrize(("recursive", "expected"), [(True, "Enabled"), (False, "Disabled")])
def test_recursive_mode_is_that_of_the_mount_in_the_runtime(recursive, expected):
    run = run_of(mounts=[Mount("/a", "/x", True, recursive_readonly=recursive), Mount("/b", "/y", True)])

    statuses = volume_mount_statuses(make_container(volume_mounts=MOUNTS), run)

    assert to_wire(statuses) == [
        {"name": "a", "mountPath": "/a", "readOnly": True, "recursiveReadOnly": expected},
        {"name": "b", "mountPath": "b", "readOnly": True, "recursiveReadOnly": "Disabled"},
        {"name": "c", "mountPath": "/c"},
    ]


@pytest.mark.parametrize("image_refs", [True, False])
def test_image_of_a_volume_is_reported_on_request(image_refs):
    run = run_of(mounts=[Mount("/a", "", True, image=ImageMount("example.com/data@sha256:12", "example.com/data:1"))])

    statuses = volume_mount_statuses(make_container(volume_mounts=MOUNTS), run, image_refs=image_refs)

    reported = [status.get("volumeStatus") for status in to_wire(statuses)]
    assert reported == [{"image": {"imageRef": "example.com/data@sha256:12"}} if image_refs else None, None, None]


def test_container_without_mounts_has_no_mount_statuses():
    assert volume_mount_statuses(make_container(), None) is msgspec.UNSET


def test_user_is_reported_with_explicit_root():
    user = user_status(run_of(user=ContainerUser(0, 0, (10,))))

    assert to_wire(user) == {"linux": {"uid": 0, "gid": 0, "supplementalGroups": [10]}}


def test_user_is_omitted_if_the_runtime_does_not_report_it():
    assert user_status(run_of()) is msgspec.UNSET


@pytest.mark.parametrize("enabled", [True, False])
def test_stop_signal_is_reported_with_its_gate(enabled):
    pod, runtime = make_pod("web", containers=["main"]), FakeRuntime()
    runtime.start("main", pod)
    observed = runtime.pod(pod.uid)
    observed = replace(observed, containers=[replace(observed.containers[0], stop_signal="SIGUSR1")])
    inputs = PodStatusInputs(
        runtime=observed, before=PodStatus(), now=datetime(2026, 1, 1, tzinfo=UTC), stop_signals=enabled
    )

    (status,) = generate_status(pod, inputs).container_statuses

    assert to_wire(status).get("stopSignal") == ("SIGUSR1" if enabled else None)
