"""Tests for the group ownership of volumes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from nodeagent.base.mounts import ownership
from nodeagent.base.mounts.ownership import apply_fs_group
from tests.descriptors import open_descriptors

GROUP = os.getgid()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A volume with a directory, a file, and a link out of the volume."""
    (tmp_path / "outside").touch(mode=0o600)
    volume = tmp_path / "volume"
    (volume / "d").mkdir(mode=0o700, parents=True)
    (volume / "d/f").touch(mode=0o600)
    (volume / "link").symlink_to(tmp_path / "outside")
    return volume


def test_group_may_write_and_links_are_not_followed(root: Path) -> None:
    apply_fs_group(root, GROUP)
    assert mode(root / "d/f") == 0o660
    assert mode(root / "d") & 0o7770 == 0o2770 and mode(root) & 0o2770 == 0o2770
    assert mode(root.parent / "outside") == 0o600


def test_group_of_a_read_only_volume_may_read(root: Path) -> None:
    apply_fs_group(root, GROUP, read_only=True)
    assert mode(root / "d/f") == 0o640 and mode(root / "d") == 0o2750


def test_interrupted_walk_is_repeated_on_root_mismatch(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(done: int) -> None:
        raise OSError(5, "interrupted")

    with pytest.raises(OSError, match="interrupted"):
        apply_fs_group(root, GROUP, progress=fail)
    (root / "d/f").chmod(0o600)
    apply_fs_group(root, GROUP, only_on_mismatch=True)
    repeated = mode(root / "d/f")
    (root / "d/f").chmod(0o600)
    apply_fs_group(root, GROUP, only_on_mismatch=True)
    assert (repeated, mode(root / "d/f")) == (0o660, 0o600)


def test_file_swapped_for_a_link_during_the_walk_is_not_followed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, outside = ownership._change, root.parent / "outside"

    def swap(descriptor: int, group: int, bits: int) -> None:
        (root / "d/f").unlink(missing_ok=True)
        (root / "d/f").symlink_to(outside)
        change(descriptor, group, bits)

    monkeypatch.setattr(ownership, "_change", swap)
    apply_fs_group(root, GROUP)
    assert mode(outside) == 0o600


def test_directory_moved_during_the_walk_ends_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "d/deep").mkdir()
    (root / "d/deep/f").touch()
    moved = root.parent / "moved"
    moved.mkdir()

    def move(done: int) -> None:
        if (root / "d/deep").exists():
            (root / "d/deep").rename(moved / "deep")

    with pytest.raises(OSError, match="moved"):
        apply_fs_group(root, GROUP, progress=move)
    assert not mode(moved) & stat.S_ISGID


def test_deep_tree_needs_few_descriptors(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    before = open_descriptors()
    counts: list[int] = []

    def count(done: int) -> None:
        counts.append(len(open_descriptors() - before))

    apply_fs_group(tmp_path, GROUP, progress=count)
    assert len(counts) == 100 and max(counts) <= 4


def test_link_in_the_path_to_the_root_is_rejected(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root.parent)
    path = tmp_path / "link" / root.name
    before = root.stat().st_mode

    with pytest.raises(NotADirectoryError):
        apply_fs_group(path, os.getgid(), below=tmp_path)

    assert root.stat().st_mode == before


def test_root_that_is_a_link_is_rejected(root: Path) -> None:
    with pytest.raises(OSError, match="symbolic links"):
        apply_fs_group(root / "link", GROUP)
