"""Tests for the disk usage of directories."""

from __future__ import annotations

import os

import pytest

from nodeagent_plugins.stats import disk
from nodeagent_plugins.stats.disk import DiskUse, WalkTooLong, use_of_file, use_of_files, use_of_tree


def blocks(path):
    return path.lstat().st_blocks * 512


def test_every_file_and_directory_is_counted_once(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    file = tmp_path / "deep" / "er" / "data"
    file.write_bytes(b"x" * 100_000)
    os.link(file, tmp_path / "second name")

    use = use_of_tree(tmp_path, 10)

    found = [tmp_path, tmp_path / "deep", tmp_path / "deep" / "er", file]
    assert use == DiskUse(sum(map(blocks, found)), 4)


def test_links_are_not_followed(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "data").write_bytes(b"x" * 100_000)
    (inside / "link").symlink_to(outside)

    assert use_of_tree(inside, 10).inodes == 2


def test_slow_walk_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_BATCH", 4)
    for number in range(10):
        (tmp_path / str(number)).touch()

    with pytest.raises(WalkTooLong):
        use_of_tree(tmp_path, -1)


def test_only_direct_files_of_a_directory_are_counted(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "data").write_bytes(b"x" * 10_000)
    (tmp_path / "0.log").write_bytes(b"x" * 10_000)

    assert use_of_files(str(tmp_path)) == DiskUse(blocks(tmp_path / "0.log"), 1)


def test_missing_path_has_zero_usage(tmp_path):
    assert use_of_files(str(tmp_path / "none")) == use_of_file(str(tmp_path / "none")) == DiskUse()


def test_time_of_a_walk_is_checked_after_each_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "_BATCH", 4)
    pauses = []
    monkeypatch.setattr(disk.time, "sleep", pauses.append)
    monkeypatch.setattr(disk.time, "monotonic", lambda: 100.0)
    for number in range(9):
        (tmp_path / str(number)).touch()

    assert use_of_tree(tmp_path, 0).inodes == 10
    assert len(pauses) == 2
