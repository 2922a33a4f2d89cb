"""Tests for directory trees of volumes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nodeagent_plugins.volumes.trees import make_directories, remove_tree


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_new_directories_have_no_permissions_for_others(tmp_path: Path) -> None:
    make_directories(tmp_path / "a/b")
    make_directories(tmp_path / "a/b")

    assert [mode(tmp_path / name) & 0o007 for name in ("a", "a/b")] == [0, 0]


def test_tree_of_any_depth_is_removed_without_following_links(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    (outside / "kept").touch()
    root.mkdir()
    (root / "link").symlink_to(outside)
    here = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.symlink(outside, "way out", dir_fd=here)
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)

    remove_tree(root)
    remove_tree(root)

    assert not root.exists()
    assert (outside / "kept").exists()


def test_link_instead_of_the_directory_is_removed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "outside")

    remove_tree(tmp_path / "root")

    assert not (tmp_path / "root").is_symlink()
    assert (tmp_path / "outside").exists()
