"""A file that was written or replaced is told from the one before."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.stamps import stamp, stamps


def test_a_stamp_changes_with_the_file(tmp_path: Path) -> None:
    path, aside = tmp_path / "a", tmp_path / "b"
    assert stamp(path) is None
    path.write_text("one")
    first = stamp(path)
    assert first == stamp(path)
    aside.write_text("two")
    aside.replace(path)
    replaced = stamp(path)
    assert replaced not in (None, first)
    path.write_text("longer")
    assert stamps([path, aside]) == (stamp(path), None)
    assert stamp(path) != replaced
