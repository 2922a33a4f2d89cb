"""Tests for the mount table."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.mounts.table import (
    containing_mount,
    mount_references,
    mounts_at,
    mounts_below,
    parse_mounts,
    read_mounts,
    read_mounts_below,
)

STAGED = "/plugins/kubernetes.io/csi/d/h/globalmount"
TEXT = f"""\
24 1 0:22 / / rw,relatime shared:1 - ext4 /dev/sda rw
40 24 8:16 / /var/lib/kubelet{STAGED} rw shared:2 - ext4 /dev/sdb rw
41 24 8:16 / /other/view{STAGED} rw shared:2 - ext4 /dev/sdb rw
42 24 8:16 / /var/lib/kubelet/pods/u/volumes/k/pv\\040one/mount ro,nosuid master:2 - ext4 /dev/sdb rw
43 24 8:16 /sub /var/lib/kubelet/pods/u/volumes/k/pv rw - ext4 /dev/sdb rw
44 42 0:50 / /var/lib/kubelet/pods/u/volumes/k/pv\\040one/mount rw - tmpfs tmpfs rw
no mount
45 x 0:50 / /bad rw - tmpfs tmpfs rw
"""
MOUNTS = parse_mounts(TEXT)


def test_lines_are_parsed_and_malformed_ones_skipped() -> None:
    assert [entry.mount_id for entry in MOUNTS] == [24, 40, 41, 42, 43, 44]
    entry = MOUNTS[3]
    assert entry.path.endswith("/pv one/mount") and entry.read_only and not entry.shared
    assert (entry.device, entry.file_system, entry.source, entry.propagation) == (
        "8:16",
        "ext4",
        "/dev/sdb",
        ("master:2",),
    )
    assert MOUNTS[0].shared


@pytest.mark.parametrize(
    ("line", "valid"),
    [
        ("24 1 0:22 / / rw - ext4 /dev/sda", True),
        ("24 1 0:22 / / rw - ext4", False),
        ("24 1 0:22 / / - ext4 /dev/sda rw", False),
        ("24 1 0:22 / / rw ext4 /dev/sda rw", False),
        ("x 1 0:22 / / rw - ext4 /dev/sda rw", False),
    ],
)
def test_line_without_the_required_fields_is_skipped(line: str, valid: bool) -> None:
    assert bool(list(parse_mounts(line))) == valid


def test_mounts_below_are_deepest_first_and_topmost_first() -> None:
    found = mounts_below(Path("/var/lib/kubelet/pods/u/volumes"), MOUNTS)
    assert [entry.mount_id for entry in found] == [44, 42, 43]
    assert [entry.mount_id for entry in mounts_at(Path("/var/lib/kubelet/pods/u/volumes/k/pv one/mount"), MOUNTS)] == [
        42,
        44,
    ]


def test_mounts_around_a_path_are_a_part_of_all_mounts(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(TEXT)

    assert [entry.mount_id for entry in parse_mounts(TEXT, around="/other/view")] == [41]
    assert parse_mounts(TEXT, around="/absent") == []
    assert parse_mounts(TEXT, around="/with space") == MOUNTS  # The kernel writes such characters as numbers.
    for directory in (Path("/var/lib/kubelet/pods/u/volumes"), Path("/var/lib/kubelet/pods/u/volumes/k/pv one")):
        assert read_mounts_below(directory, table) == mounts_below(directory, MOUNTS) != []


def test_references_omit_other_roots_and_views_of_the_same_path() -> None:
    staged = Path(f"/var/lib/kubelet{STAGED}")
    assert mount_references(staged, MOUNTS) == ["/var/lib/kubelet/pods/u/volumes/k/pv one/mount"]
    assert mount_references(Path("/var/lib/kubelet/absent"), MOUNTS) == []


def test_containing_mount_is_the_longest_prefix() -> None:
    entry = containing_mount(Path("/other/view/x"), MOUNTS)
    assert entry is not None and entry.mount_id == 24
    entry = containing_mount(Path(f"/other/view{STAGED}/file"), MOUNTS)
    assert entry is not None and entry.mount_id == 41


def test_table_of_this_process_contains_the_root() -> None:
    assert any(entry.path == "/" for entry in read_mounts())
