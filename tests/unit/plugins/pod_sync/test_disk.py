"""Tests for the directories of pods on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.errors import NodeAgentError, VolumeError
from nodeagent_plugins.pod_sync import disk
from nodeagent_plugins.pod_sync.paths import PodPaths


def test_directory_with_files_of_the_agent_is_removed(tmp_path: Path) -> None:
    root = tmp_path / "pods" / "uid"
    (root / "containers" / "main").mkdir(parents=True)
    (root / "containers" / "main" / "message").touch()
    (root / "etc-hosts").touch()
    (root / "volumes" / "kind").mkdir(parents=True)

    assert disk.remove_pod_directory(root) == []
    assert not root.exists()


def test_other_files_remain_and_are_returned(tmp_path: Path) -> None:
    root = tmp_path / "uid"
    (root / "volumes" / "data").mkdir(parents=True)
    (root / "volumes" / "data" / "file").touch()

    assert disk.remove_pod_directory(root) == [str(root / "volumes" / "data" / "file")]


def test_directory_with_a_mount_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "uid"
    mounted = root / "volumes" / "kind" / "data"
    (mounted / "inside").mkdir(parents=True)
    (root / "containers" / "main").mkdir(parents=True)
    monkeypatch.setattr(disk, "is_mount_point", lambda path: path in (mounted, mounted / "inside"))

    with pytest.raises(VolumeError, match=f"remove {root}: still mounted: {mounted}$"):
        disk.remove_pod_directory(root)

    assert (root / "containers" / "main").exists()


def test_missing_directory_is_removed(tmp_path: Path) -> None:
    assert disk.remove_pod_directory(tmp_path / "absent") == []


def test_log_links_without_target_are_removed(tmp_path: Path) -> None:
    links = tmp_path / "containers"
    links.mkdir()
    (tmp_path / "log").touch()
    (links / "alive").symlink_to(tmp_path / "log")
    (links / "dead").symlink_to(tmp_path / "none")
    (links / "file").touch()

    disk.remove_dead_links(tmp_path)

    assert sorted(path.name for path in links.iterdir()) == ["alive", "file"]


def test_termination_messages_outside_of_the_directory_are_kept(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    files = [own / "message", tmp_path / "message"]
    for file in files:
        file.touch()

    disk.remove_messages(own, map(str, files))

    assert [file.exists() for file in files] == [False, True]


def test_directory_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("in the way")
    root = tmp_path / "pods" / "uid"
    paths = PodPaths(root, tmp_path / "log", tmp_path / "log/pods", "default", "web", "uid")

    with pytest.raises(NodeAgentError) as raised:
        disk.make_pod_directories(paths)

    assert str(raised.value) == f"error making pod data directories: {root}: Not a directory"
