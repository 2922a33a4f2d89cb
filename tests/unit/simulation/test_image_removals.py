"""Tests for the invariants of image garbage collection: each violation is recorded, permitted removals are not."""

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.simulation.disks import IMAGEFS
from nodeagent.simulation.image_removals import ImageRemovals
from nodeagent.simulation.runtime_objects import Container

from .host import Host


@pytest.fixture
def host(tmp_path):
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    host = Host(manifests, has_pressure=True)
    host.pull("old")
    host.loop.now = 200.0
    return host


@pytest.mark.parametrize(
    ("available", "violation"),
    [
        (5, ""),
        (15, ""),
        (16, "image old is removed although its disk is not full"),
        (50, "image old is removed although its disk is not full"),
    ],
)
def test_image_is_removed_only_from_a_full_disk(host, available, violation):
    host.leave_disk(IMAGEFS, available)

    host.remove_image("old")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("passed", "violation"), [(60, ""), (61, "image old is removed although its disk is not full")]
)
def test_collection_ends_soon_after_the_disk_was_full(host, passed, violation):
    host.leave_disk(IMAGEFS, 15)
    host.leave_disk(IMAGEFS, 19)
    host.loop.now += passed

    host.remove_image("old")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("full", "left", "released", "violation"),
    [
        (15, 21.9, 0, ""),
        (15, 22, 0, "image old is removed although enough space is available"),
        (15, 22, 190, ""),
        (15, 22, 140, ""),
        (10, 22, 0, "image old is removed although enough space is available"),
        (5, 22, 0, ""),
    ],
    ids=[
        "containers may have been removed",
        "enough",
        "others have removed files",
        "others at the start",
        "no pressure",
        "pressure",
    ],
)
def test_no_more_images_are_removed_than_needed(host, full, left, released, violation):
    host.disks.released_at = released
    host.leave_disk(IMAGEFS, full)
    host.leave_disk(IMAGEFS, left)

    host.remove_image("old")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("since", "violation"), [(170, ""), (169, "image old is removed although the containers ['c0'] use it")]
)
def test_used_image_is_retained(host, since, violation):
    container = host.container(host.sandbox("a"), image={"image": "old"})
    container.existing_since = float(since)
    host.leave_disk(IMAGEFS, 5)

    host.remove_image("old")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("age", "offset", "violation"),
    [(120, 0, ""), (119, 0, "image new is removed although it is new"), (119, 3600, "")],
    ids=["old", "new", "the clock has changed"],
)
def test_new_image_is_retained(host, age, offset, violation):
    host.pull("new")
    host.loop.now += age
    host.clock.offset_seconds = offset
    host.leave_disk(IMAGEFS, 5)

    host.remove_image("new")

    assert host.violation == violation


@pytest.mark.parametrize(
    ("start", "end", "violation"),
    [
        (245, 245, ""),
        (246, 300, "image old is removed although its disk is not full"),
        (0, 4, "image old is removed although its disk is not full"),
        (0, 5, ""),
    ],
)
def test_delayed_collection_may_be_outdated(host, start, end, violation):
    host.loop.now = 245.0
    host.invariants.delays.append((float(start), float(end)))

    host.remove_image("old")

    assert host.violation == violation


def test_earlier_pressure_is_forgotten(host):
    host.leave_disk(IMAGEFS, 5)
    host.leave_disk(IMAGEFS, 50)
    host.loop.now += 3601
    host.invariants.forget(50)

    host.remove_image("old")

    assert host.violation == "image old is removed although its disk is not full"


@pytest.mark.parametrize(
    ("offset", "delay", "age", "removable"),
    [
        (0.0, None, 481.0, ["old"]),
        (0.0, None, 480.0, ["old"]),
        (0.0, None, 479.0, []),
        (5.0, None, 481.0, []),
        (0.0, (0.0, 350.0), 481.0, ["old"]),
        (0.0, (0.0, 470.0), 481.0, []),
    ],
)
def test_old_unused_images_can_be_removed_before_evictions(tmp_path, offset, delay, age, removable):
    host = Host(tmp_path, has_pressure=True)
    host.pull("old", "used", "needed")
    metadata = cri.ContainerMetadata(name="web")
    sandbox = host.sandbox("a")
    config = cri.ContainerConfig(metadata=metadata, image=cri.ImageSpec(image="used"))
    host.runtime.containers["c"] = Container("c", sandbox, config, 0)
    host.add("b", container={"name": "web", "image": "needed"})
    removals = ImageRemovals(host, lambda *_: None, [delay] if delay else [])
    removals.observe()
    host.loop.now, host.clock.offset_seconds = age, offset

    assert removals.removable() == removable


@pytest.mark.parametrize(("unused_seconds", "removable"), [(30.0, ["old"]), (29.0, [])])
def test_image_whose_last_container_was_just_removed_may_be_left(host, unused_seconds, removable):
    removals = ImageRemovals(host, lambda *_: None, [])
    host.pull("old")
    config = cri.ContainerConfig(metadata=cri.ContainerMetadata(name="web"), image=cri.ImageSpec(image="old"))
    host.runtime.containers["c"] = Container("c", host.sandbox("a"), config, 0)
    host.loop.now = 1000.0
    removals.observe()
    host.loop.now += 500.0
    removals.observe()
    del host.runtime.containers["c"]
    host.loop.now += unused_seconds

    assert removals.removable() == removable


@pytest.mark.parametrize(("age", "removable"), [(480.0, ["old"]), (479.0, [])])
def test_image_that_was_pulled_again_is_new(host, age, removable):
    removals = ImageRemovals(host, lambda *_: None, [])
    removals.observe()
    host.runtime.images.clear()
    host.loop.now = 700.0
    removals.observe()
    host.pull("old")
    removals.observe()
    host.loop.now += age

    assert removals.removable() == removable
