"""Tests for the directories of pods on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.errors import VolumeError
from nodeagent_plugins.pod_sync import disk


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
