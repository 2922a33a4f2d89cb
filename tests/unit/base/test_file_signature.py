"""Tests for file signatures."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.file_signature import file_signature, file_signatures


def test_signature_changes_when_the_file_is_written_or_replaced(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    assert file_signature(path) is None
    path.write_text("one")
    first = file_signature(path)
    assert first == file_signature(path)
    other.write_text("two")
    other.replace(path)
    replaced = file_signature(path)
    assert replaced not in (None, first)
    path.write_text("longer")
    assert file_signatures([path, other]) == (file_signature(path), None)
    assert file_signature(path) != replaced
