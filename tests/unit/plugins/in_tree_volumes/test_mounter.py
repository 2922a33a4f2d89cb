"""Tests for the mounter of the host, with a given mount table."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.mounts.table import MountEntry
from nodeagent_plugins.in_tree_volumes import mounter
from nodeagent_plugins.in_tree_volumes.mounter import LinuxMounter, run_command


def entry(path: str, root: str = "/", device: str = "8:1") -> MountEntry:
    return MountEntry(1, 1, device, root, path, (), (), "ext4", "/dev/sda1")


@pytest.mark.parametrize(
    ("mounts", "found"),
    [
        ([entry("/"), entry("/target", "/data"), entry("/other", "/data")], ["/other"]),
        ([entry("/"), entry("/target", "/data"), entry("/other", "/elsewhere")], []),
        ([entry("/"), entry("/target", "/data"), entry("/other", "/data", "8:2")], []),
        ([entry("/"), entry("/data", "/", "8:2"), entry("/target", "/", "8:2"), entry("/o", "/", "8:2")], ["/o"]),
        ([], []),
    ],
)
def test_other_mounts_of_a_directory_are_found(
    monkeypatch: pytest.MonkeyPatch, mounts: list[MountEntry], found: list[str]
) -> None:
    monkeypatch.setattr(mounter, "read_mounts", lambda: mounts)

    assert LinuxMounter().other_binds(Path("/data"), Path("/target")) == found


def test_missing_command_is_named() -> None:
    assert run_command(["/no/such-command"]) == (127, "/no/such-command: executable file not found")
