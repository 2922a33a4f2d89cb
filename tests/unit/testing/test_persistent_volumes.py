"""Tests for the fake kind of persistent volumes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.testing.persistent_volumes import FakePersistentKind


def test_volumes_are_found_while_directories_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    glob, removed = Path.glob, [tmp_path / "removed"]

    def search(directory: Path, pattern: str) -> Iterator[Path]:
        if removed:  # It is still listed in its parent.
            removed.pop().iterdir().__next__()
        return glob(directory, pattern)

    kind = FakePersistentKind(tmp_path)
    volume = tmp_path / "pods" / "uid" / "volumes" / kind.name / "kept"
    volume.mkdir(parents=True)
    (volume / "handle").touch()
    monkeypatch.setattr(Path, "glob", search)

    assert kind.published() == [volume]
    assert removed == []
