"""Tests for checks of mount points."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nodeagent.base.mounts import points
from nodeagent.base.mounts.points import is_corrupted, is_mount_point, remove_empty_directory


def test_only_a_mounted_directory_is_a_mount_point(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/proc")
    assert is_mount_point(Path("/proc"))
    assert not is_mount_point(tmp_path)
    assert not is_mount_point(tmp_path / "link")
    assert not is_mount_point(tmp_path / "absent")


def test_corrupted_mount_is_found_in_the_mount_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, _dir_fd: int | None) -> tuple[int, int]:
        raise OSError(errno.ESTALE, "stale", str(path))

    monkeypatch.setattr(points, "_attributes", fail)
    assert is_mount_point(Path("/proc"))
    assert is_corrupted(OSError(errno.ESTALE, "stale")) and not is_corrupted(OSError(errno.ENOENT, "absent"))


def test_directory_with_content_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    (tmp_path / "empty").mkdir()
    assert not remove_empty_directory(tmp_path / "full")
    assert remove_empty_directory(tmp_path / "empty") and remove_empty_directory(tmp_path / "empty")
    assert (tmp_path / "full/file").exists()
