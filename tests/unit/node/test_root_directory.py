"""Tests for the propagation of mounts in the root directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.mounts.table import MountEntry
from nodeagent.node.root_directory import share

VOLUME = "pods/uid/volumes/kubernetes.io~secret/v"


def entry(path: Path | str, *propagation: str) -> MountEntry:
    return MountEntry(1, 1, "8:1", "/", str(path), (), propagation, "ext4", "/dev/sda1")


def test_private_root_directory_becomes_a_shared_mount(tmp_path: Path) -> None:
    changed: list[Path] = []
    assert share(tmp_path, [entry("/")], changed.append)
    assert changed == [tmp_path]


def test_root_directory_on_a_shared_mount_is_not_changed(tmp_path: Path) -> None:
    changed: list[Path] = []
    assert not share(tmp_path, [entry("/", "shared:1")], changed.append)
    assert not share(tmp_path, [entry("/"), entry(tmp_path, "shared:1")], changed.append)
    assert changed == []


def test_mounted_volumes_are_not_hidden_by_a_bind_mount(tmp_path: Path) -> None:
    changed: list[Path] = []
    with pytest.raises(OSError, match="volumes are mounted below it"):
        share(tmp_path, [entry("/"), entry(tmp_path / VOLUME)], changed.append)
    assert changed == []


def test_private_mount_with_volumes_becomes_shared_itself(tmp_path: Path) -> None:
    changed: list[Path] = []
    assert share(tmp_path, [entry("/"), entry(tmp_path), entry(tmp_path / VOLUME)], changed.append)
    assert changed == [tmp_path]
