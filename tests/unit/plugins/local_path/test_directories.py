"""Tests for the directories of local volumes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from nodeagent.base.mounts.table import MountEntry
from nodeagent_plugins.local_path import directories, project_quota
from nodeagent_plugins.local_path.directories import Conflict, InvalidRequest, LocalVolumes
from nodeagent_plugins.local_path.project_quota import QuotaUnsupported

NAME = "pvc-0a1b"


class FakeQuota:
    """Project quotas of a file system; ``supported`` selects whether it has any."""

    def __init__(self) -> None:
        self.supported = True
        self.limits: dict[int, int] = {}
        self.cleared: list[int] = []

    def limit(self, directory: int, project: int, capacity: int) -> None:
        if not self.supported:
            raise QuotaUnsupported("Operation not supported")
        self.limits[project] = capacity

    def clear(self, directory: int, project: int) -> None:
        self.limits.pop(project, None)
        self.cleared.append(project)


@pytest.fixture
def quota(monkeypatch: pytest.MonkeyPatch) -> FakeQuota:
    fake = FakeQuota()
    monkeypatch.setattr(project_quota, "limit", fake.limit)
    monkeypatch.setattr(project_quota, "clear", fake.clear)
    return fake


@pytest.fixture
def volumes(tmp_path: Path, quota: FakeQuota) -> LocalVolumes:
    return LocalVolumes(tmp_path / "local-volumes")


def test_volume_is_writable_by_all_in_a_private_directory(volumes: LocalVolumes, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = volumes.create(NAME, 1024).path
    finally:
        os.umask(before)

    assert path == tmp_path / "local-volumes" / NAME / "data"
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent, path.parent.parent)]
    assert modes == [0o777, 0o700, 0o700]


def test_repeated_request_keeps_content_and_changes_the_quota(volumes: LocalVolumes, quota: FakeQuota) -> None:
    first = volumes.create(NAME, 1024)
    (first.path / "file").write_text("data")
    second = volumes.create(NAME, 4096)

    assert (first.path / "file").read_text() == "data"
    assert quota.limits == {first.project: 4096} and second.project == first.project != 0


def test_file_system_without_quotas_is_reported(volumes: LocalVolumes, quota: FakeQuota) -> None:
    quota.supported = False

    assert volumes.create(NAME, 1024).project == 0
    volumes.delete(NAME)
    assert quota.cleared == []  # Files without a project have project 0.


def test_each_volume_has_its_own_project(volumes: LocalVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_quota.zlib, "crc32", lambda data: 7)

    assert volumes.create("a", 1).project != volumes.create("b", 1).project


def test_deleted_volume_leaves_nothing(volumes: LocalVolumes, quota: FakeQuota, tmp_path: Path) -> None:
    path = volumes.create(NAME, 1024).path
    (path / "a/b").mkdir(parents=True)
    (path / "a/b/file").write_text("data")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    (path / "link").symlink_to(outside)
    for _ in range(2):
        volumes.delete(NAME)

    assert list((tmp_path / "local-volumes").iterdir()) == [] and quota.limits == {}
    assert (outside / "kept").read_text() == "kept"


def test_interrupted_deletion_is_completed(volumes: LocalVolumes, monkeypatch: pytest.MonkeyPatch) -> None:
    path = volumes.create(NAME, 1024).path
    (path / "file").write_text("data")

    def fail(descriptor: int, directory: Path) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched, pytest.raises(OSError, match="Input/output error"):
        patched.setattr(directories, "remove_content", fail)
        volumes.delete(NAME)
    volumes.delete(NAME)

    assert not path.parent.exists()


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "A", "-a", "a.b", "x" * 200, "a\n"])
def test_invalid_name_is_rejected(volumes: LocalVolumes, name: str) -> None:
    for act in (lambda: volumes.create(name, 1), lambda: volumes.delete(name)):
        with pytest.raises(InvalidRequest):
            act()


def test_directory_of_others_is_left_alone(volumes: LocalVolumes, tmp_path: Path) -> None:
    path = tmp_path / "local-volumes" / NAME
    path.mkdir(parents=True)
    (path / "theirs").write_text("data")
    for act in (lambda: volumes.create(NAME, 1), lambda: volumes.delete(NAME)):
        with pytest.raises(Conflict, match="was not created by this node agent"):
            act()

    assert (path / "theirs").read_text() == "data"


@pytest.mark.parametrize("part", ["volume", "data"])
def test_symbolic_link_is_not_followed(volumes: LocalVolumes, tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    volume = volumes.create(NAME, 1).path.parent
    if part == "volume":
        volume.rename(tmp_path / "moved")
        volume.symlink_to(outside)
    else:
        (volume / "data").rmdir()
        (volume / "data").symlink_to(outside)
    for act in (lambda: volumes.create(NAME, 1), lambda: volumes.delete(NAME)):
        with pytest.raises(Conflict, match="is not a directory"):
            act()

    assert (outside / "kept").read_text() == "kept"


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "other", "capacity": 1}', '{"surprise": 1}'])
def test_invalid_marker_prevents_deletion(volumes: LocalVolumes, content: str) -> None:
    path = volumes.create(NAME, 1).path
    (path.parent / "volume.json").write_text(content)

    with pytest.raises(Conflict):
        volumes.delete(NAME)
    assert path.exists()


def test_volume_without_marker_after_a_crash_is_completed(volumes: LocalVolumes, tmp_path: Path) -> None:
    path = tmp_path / "local-volumes" / NAME
    path.mkdir(parents=True)
    (path / ".volume.json.new").write_text("{")
    volumes.create(NAME, 5)

    assert json.loads((path / "volume.json").read_text())["capacity"] == 5


@pytest.mark.parametrize("step", ["fchmod", "rename"])
@pytest.mark.parametrize("act", ["create", "delete"])
def test_crash_before_the_data_directory_is_complete_leaves_no_wrong_mode(
    volumes: LocalVolumes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str, act: str
) -> None:
    function = getattr(os, step)

    def crash(source: int | str, *args: object, **options: object) -> None:
        if source in (".data.new", "data") or isinstance(source, int):
            raise KeyboardInterrupt
        function(source, *args, **options)

    path = tmp_path / "local-volumes" / NAME
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, step, crash)
        volumes.create(NAME, 1)
    assert not (path / "data").exists()

    if act == "delete":
        volumes.delete(NAME)
        assert not path.exists()
    else:
        assert stat.S_IMODE(volumes.create(NAME, 1).path.stat().st_mode) == 0o777
        assert sorted(os.listdir(path)) == ["data", "volume.json"]


def test_repeated_request_keeps_the_mode_that_a_pod_set(volumes: LocalVolumes) -> None:
    volumes.create(NAME, 1).path.chmod(0o2770)

    assert stat.S_IMODE(volumes.create(NAME, 2).path.stat().st_mode) == 0o2770


@pytest.mark.parametrize("mount", ["source", "below"])
def test_mounted_volume_is_not_deleted(
    volumes: LocalVolumes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mount: str
) -> None:
    path = volumes.create(NAME, 1).path
    (path / "file").write_text("data")

    def entry(root: str, at: str, device: str = "8:1") -> MountEntry:
        return MountEntry(1, 1, device, root, at, (), (), "ext4", "/dev/sda1")

    used = entry(f"/@{path}", "/var/lib/kubelet/pods/x/volumes/y/z") if mount == "source" else entry("/", f"{path}/m")
    monkeypatch.setattr(directories, "read_mounts", lambda: [entry("/@", "/"), used])

    with pytest.raises(Conflict, match=f"volume {NAME} is in use: it is mounted at {used.path}"):
        volumes.delete(NAME)
    assert (path / "file").read_text() == "data"
