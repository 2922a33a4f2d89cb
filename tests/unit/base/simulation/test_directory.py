"""Tests for the directory of a simulated node."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nodeagent.base.simulation import directory
from nodeagent.base.simulation.directory import private_directory


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(directory, "_MEMORY", tmp_path)
    return tmp_path


def test_directory_is_empty_and_removed_at_the_end(memory: Path) -> None:
    with private_directory(7) as first:
        (first / "file").touch()
    (first / "left").mkdir(parents=True)

    with private_directory(7) as second:
        assert second == first
        assert list(second.iterdir()) == []
    assert not second.exists()
    assert first.parent.stat().st_mode & 0o777 == 0o700


def test_other_directory_is_used_if_there_is_none_in_memory(
    memory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(directory, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "other"))
    (tmp_path / "other").mkdir()

    with private_directory(7) as path:
        assert path.is_relative_to(tmp_path / "other")


def test_link_is_rejected(memory: Path) -> None:
    (memory / "elsewhere").mkdir()
    (memory / f"nodeagent-simulation-{os.getuid()}").symlink_to(memory / "elsewhere")

    with pytest.raises(PermissionError, match="belongs to another user"), private_directory(7):
        pass


def test_directory_of_another_user_is_rejected(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.getuid() + 1
    (memory / f"nodeagent-simulation-{user}").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: user)

    with pytest.raises(PermissionError, match="belongs to another user"), private_directory(7):
        pass
