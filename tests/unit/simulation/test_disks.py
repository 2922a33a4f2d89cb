"""Tests for the simulated disks: their statistics, file systems and images agree."""

import os
from contextlib import ExitStack
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from nodeagent.simulation.disks import CAPACITY_BYTES, GIB, IMAGEFS, NODEFS, SEPARATE_MOUNT_POINT, SimulatedDisks
from nodeagent.simulation.image_store import NoSpace
from nodeagent_plugins.image_gc.collector import measure

from .host import Host


def disks_of(tmp_path, *, separate):
    """Return the disks of the first seed with images on a separate disk, or on that of the root directory."""
    for seed in range(20):
        host = Host(tmp_path)
        disks = SimulatedDisks(seed, host.runtime, host.clock, tmp_path)
        if disks.are_separate == separate:
            return SimpleNamespace(host=host, disks=disks)
    raise AssertionError("no seed has this layout")


@pytest.fixture(params=[True, False], ids=["separate", "shared"])
def node(request, tmp_path):
    node = disks_of(tmp_path, separate=request.param)
    node.separate, node.root = request.param, tmp_path
    with ExitStack() as stack:
        for owner, name, value in node.disks.replacements():
            stack.enter_context(patch.object(owner, name, value))
        yield node


def test_images_and_containers_use_their_disk(node):
    before = {signal: node.disks.available(signal) for signal in (NODEFS, IMAGEFS)}
    node.host.runtime.images["app:1"] = None
    container = node.host.container(node.host.sandbox("a"))
    logs, layer, image = node.disks.logs(container), node.disks.layer(container), node.disks.size("app:1")

    used = {signal: before[signal] - node.disks.available(signal) for signal in before}

    together = logs + layer + image
    assert used == ({NODEFS: logs, IMAGEFS: layer + image} if node.separate else {NODEFS: together, IMAGEFS: together})


def test_sizes_depend_on_names_only(node):
    container = node.host.container(node.host.sandbox("a"))
    before = node.disks.layer(container), node.disks.size("app:1")

    node.disks.forget()

    assert (node.disks.layer(container), node.disks.size("app:1")) == before


def test_file_systems_and_statistics_agree(node):
    node.disks.leave(IMAGEFS, 12)

    mount = node.disks.mount_point
    measured, reported = measure(mount), node.disks.filesystem(IMAGEFS, 5)

    assert mount == (SEPARATE_MOUNT_POINT if node.separate else str(node.root))
    assert (measured.capacity, measured.available) == (CAPACITY_BYTES, CAPACITY_BYTES * 12 // 100)
    assert (reported.capacity_bytes, reported.available_bytes) == (CAPACITY_BYTES, CAPACITY_BYTES * 12 // 100)
    assert reported.time == 5


def test_root_directory_has_its_disk_and_others_are_real(node):
    node.disks.leave(NODEFS, 7)

    assert measure(str(node.root)).available == CAPACITY_BYTES * 7 // 100
    assert measure("/").capacity != CAPACITY_BYTES
    descriptor = os.open("/", os.O_RDONLY)
    try:
        assert os.statvfs(descriptor).f_blocks == os.statvfs("/").f_blocks
    finally:
        os.close(descriptor)


def test_disk_with_less_space_is_unchanged(node):
    node.disks.leave(IMAGEFS, 5)
    node.disks.leave(IMAGEFS, 50)

    assert node.disks.available(IMAGEFS) == CAPACITY_BYTES * 5 // 100


def test_recovery_removes_the_other_files_of_all_disks(node):
    before = {signal: node.disks.available(signal) for signal in (NODEFS, IMAGEFS)}
    for signal in before:
        node.disks.leave(signal, 5)
    node.host.loop.now = 7.0

    node.disks.recover()

    assert {signal: node.disks.available(signal) for signal in before} == before
    assert node.disks.released_at == 7.0


def test_operator_removes_images(node):
    node.host.runtime.images |= {"app:1": None, "app:2": None}
    node.host.loop.now = 7.0

    node.disks.remove_images(["app:1"])

    assert node.host.runtime.images == {"app:2": None}
    assert node.disks.released_at == 7.0


def test_image_without_space_is_rejected(node):
    node.disks.leave(IMAGEFS, 4)
    node.disks.reserve("app:1")  # The largest images have 4 GiB.

    node.disks.leave(IMAGEFS, 0)

    assert CAPACITY_BYTES * 4 // 100 == 4 * GIB
    with pytest.raises(NoSpace):
        node.disks.reserve("app:1")
