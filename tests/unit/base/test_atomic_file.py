"""Tests for files that are replaced atomically."""

from __future__ import annotations

import stat
from pathlib import Path

from nodeagent.base.atomic_file import write_private


def test_private_files_are_owner_only_and_replaced_atomically(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "k"

    write_private(path, b"one")
    write_private(path, b"two")

    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in path.parent.iterdir()] == ["k"]
