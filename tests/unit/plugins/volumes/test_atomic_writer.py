"""Tests for the atomic writer."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nodeagent.errors import VolumeError
from nodeagent_plugins.volumes import atomic_writer
from nodeagent_plugins.volumes.atomic_writer import File, check_path, write_payload

from .conftest import tree

NOW = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(directory: Path, **content: str) -> bool:
    payload = {path: File(text.encode(), 0o644) for path, text in content.items()}
    return write_payload(directory, payload, group=None, now=NOW)


@pytest.mark.parametrize("path", ["a", "a/b", ".a", "a..b/c", "a/..b", "n" * 255, "a/" * 2047 + "aa"])
def test_plain_path_is_accepted(path: str) -> None:
    check_path(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "..", "../a", "a/../b", "..a", "...", "a//b", "a/", "./a", "a\0b", "n" * 256, "a/" * 2048 + "a"]
)
def test_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(VolumeError, match="invalid path"):
        check_path(path)


def test_directory_is_named_after_the_time(tmp_path: Path) -> None:
    assert write(tmp_path, a="1")

    assert (tmp_path / "..data").readlink().name.startswith("..2024_01_02_03_04_05.")
    assert (tmp_path / "a").readlink() == Path("..data/a")


def test_files_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    (tmp_path / "..2024_torn").mkdir()
    (tmp_path / "..2024_torn/half").write_text("x")
    (tmp_path / "..data_tmp").symlink_to("..2024_torn")
    (tmp_path / "a").unlink()
    (tmp_path / "stale").symlink_to("..data/stale")

    assert not write(tmp_path, a="1")
    assert write(tmp_path, a="2")

    current = (tmp_path / "..data").readlink().name
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([current, "..data", "a"])


def test_failed_write_keeps_the_old_content(tmp_path: Path) -> None:
    write(tmp_path, a="1")

    with pytest.raises(OSError, match="exists"):
        write_payload(tmp_path, {"b": File(b"", 0o644), "b/c": File(b"", 0o644)}, group=None, now=NOW)

    assert tree(tmp_path) == {"a": "1"}
    assert len(list(tmp_path.iterdir())) == 3


def test_externally_changed_file_is_written_again(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    (tmp_path / "a").write_text("2")

    assert write(tmp_path, a="1")
    assert tree(tmp_path) == {"a": "1"}


def test_file_with_another_mode_is_written_again(tmp_path: Path) -> None:
    write(tmp_path, a="1")
    (tmp_path / "a").chmod(0o600)

    assert write(tmp_path, a="1")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("user", "group"), [(None, os.getgid()), (os.getuid(), None), (os.getuid(), os.getgid())])
def test_unchanged_files_of_a_user_or_group_are_not_written(
    tmp_path: Path, user: int | None, group: int | None
) -> None:
    payload = {"a": File(b"1", 0o400, user)}

    assert [write_payload(tmp_path, payload, group=group, now=NOW) for _ in range(2)] == [True, False]


@pytest.mark.parametrize(("user", "group"), [(None, os.getgid() + 1), (os.getuid() + 1, None)])
def test_files_of_another_user_or_group_are_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int | None, group: int | None
) -> None:
    monkeypatch.setattr(atomic_writer, "apply_fs_group", lambda *_, **__: None)
    monkeypatch.setattr(atomic_writer.os, "chown", lambda *_, **__: None)
    monkeypatch.setattr(atomic_writer.os, "fchown", lambda *_, **__: None)
    payload = {"a": File(b"1", 0o440, user)}

    assert [write_payload(tmp_path, payload, group=group, now=NOW) for _ in range(2)] == [True, True]
