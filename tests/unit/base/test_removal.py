"""Tests for the removal of untrusted directory trees."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodeagent.base import removal
from nodeagent.base.removal import remove_tree


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with files, empty and full directories, and links to a directory outside of it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    root = tmp_path / "root"
    for directory in ("empty", "a/b/c/d", "a/b/e", "f"):
        (root / directory).mkdir(parents=True)
    for file in ("top", "a/one", "a/b/two", "a/b/c/d/three", "f/four"):
        (root / file).touch()
    for link in ("link", "a/link", "a/b/c/link"):
        (root / link).symlink_to(outside)
    return root


def test_tree_is_removed_without_following_links(tree: Path) -> None:
    remove_tree(tree)

    assert [path.name for path in tree.parent.iterdir()] == ["outside"]
    assert (tree.parent / "outside/precious").exists()


def test_missing_directory_is_not_an_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "none")


@pytest.mark.parametrize("kind", ["file", "link"])
def test_file_or_link_instead_of_a_directory_is_removed(tmp_path: Path, kind: str) -> None:
    target, path = tmp_path / "target", tmp_path / "path"
    target.mkdir()
    if kind == "file":
        path.touch()
    else:
        path.symlink_to(target)

    remove_tree(path)

    assert [each.name for each in tmp_path.iterdir()] == ["target"]


def test_mounted_file_system_is_not_removed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted = (tree / "a").stat().st_ino

    def is_mount_point(path: Path, *, dir_fd: int) -> bool:
        return os.fstat(dir_fd).st_ino == mounted

    monkeypatch.setattr(removal, "is_mount_point", is_mount_point)

    with pytest.raises(OSError, match="a file system is mounted here") as raised:
        remove_tree(tree)

    assert (raised.value.errno, raised.value.filename) == (errno.EBUSY, str(tree / "a"))
    assert (tree / "a/b/c/d/three").exists()


def test_deep_tree_needs_few_descriptors(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(1500):  # A path of this length cannot be opened.
        os.mkdir("a", dir_fd=descriptor)
        inner = os.open("a", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)

    remove_tree(root)

    assert not root.exists()
