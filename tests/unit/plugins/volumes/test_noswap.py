"""Tests for the mount option against swapping of volumes in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.context import AgentContext
from nodeagent.testing import FakeClock, FakeObjects, FakeRecorder, make_context
from nodeagent_plugins import volumes
from nodeagent_plugins.volumes.content import content_kinds
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.noswap import tmpfs_option

from .conftest import FakeMounter, pod_with

AREAS = ["/dev/sda2"]


def context_of(tmp_path: Path, release: Release, **more: Any) -> AgentContext:
    return make_context(tmp_path, release=SelectedRelease(release), **more)


def test_option_is_used_on_a_host_with_swap(tmp_path: Path, mounter: FakeMounter, recorder: FakeRecorder) -> None:
    context = context_of(tmp_path, Release(1, 30), recorder=recorder)

    assert tmpfs_option(context, mounter, lambda: AREAS) == "noswap"
    assert mounter.mounts == {} and not recorder.reasons()
    assert not list(context.root_dir.glob("noswap-test-*"))


@pytest.mark.parametrize(("release", "areas"), [(Release(1, 29), AREAS), (Release(1, 36), [])])
def test_option_is_not_tried_without_swap_or_before_1_30(
    tmp_path: Path, mounter: FakeMounter, recorder: FakeRecorder, release: Release, areas: list[str]
) -> None:
    mounter.fails = OSError(22, "Invalid argument")

    assert tmpfs_option(context_of(tmp_path, release, recorder=recorder), mounter, lambda: areas) == ""
    assert not recorder.reasons()


def test_kernel_without_the_option_is_reported(tmp_path: Path, mounter: FakeMounter, recorder: FakeRecorder) -> None:
    mounter.fails = OSError(22, "Invalid argument")

    assert tmpfs_option(context_of(tmp_path, Release(1, 36), recorder=recorder), mounter, lambda: AREAS) == ""
    (event,) = recorder.of("PossibleMemoryBackedVolumesOnDisk")
    assert event.note.startswith("The tmpfs noswap option is not supported.")


async def test_bundled_kinds_have_the_option(
    tmp_path: Path, mounter: FakeMounter, monkeypatch: pytest.MonkeyPatch, clock: FakeClock, objects: FakeObjects
) -> None:
    monkeypatch.setattr(volumes, "LinuxMounter", lambda: mounter)
    monkeypatch.setattr(volumes, "tmpfs_option", lambda *_: "noswap")
    context = make_context(tmp_path, clock=clock, objects=objects)
    kinds = volumes.nodeagent_provide_volume_kinds(context)
    memory = [{"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "info", "downwardAPI": {"items": []}}]

    await Manager(context, kinds, mounter).prepare(pod_with(*memory))

    assert {path.name for path, (_, options) in mounter.mounts.items() if "noswap" in options} == {"mem", "info"}


async def test_volumes_in_memory_are_mounted_with_the_option(
    tmp_path: Path, mounter: FakeMounter, clock: FakeClock, objects: FakeObjects
) -> None:
    context = make_context(tmp_path, clock=clock, objects=objects)
    kinds = [EmptyDir(context, mounter, "noswap"), *content_kinds(context, mounter, "noswap")]
    pod = pod_with(
        {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "info", "downwardAPI": {"items": []}},
        {"name": "disk", "emptyDir": {}},
    )

    await Manager(context, kinds, mounter).prepare(pod)

    assert {path.name: options for path, options in mounter.mounts.items()} == {
        "mem": ("tmpfs", "size=1048576,noswap"),
        "info": ("tmpfs", "noswap"),
    }
