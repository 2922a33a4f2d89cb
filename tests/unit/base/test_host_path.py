"""Tests for the types of host paths."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from nodeagent.base.host_path import HostPathError, check_host_path


@pytest.mark.parametrize("kind", ["FileOrCreate", "DirectoryOrCreate"])
def test_missing_path_is_created(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "new"

    check_host_path(path, kind)

    assert path.is_file() == (kind == "FileOrCreate")
    assert path.is_dir() == (kind == "DirectoryOrCreate")
    check_host_path(path, kind)


def test_existing_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    path.touch()
    before = path.stat().st_mtime_ns

    check_host_path(path, "FileOrCreate")

    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize("kind", ["File", "Directory", "Socket", "CharDevice", "BlockDevice"])
def test_missing_path_of_other_types_is_an_error(tmp_path: Path, kind: str) -> None:
    with pytest.raises(HostPathError, match="No such file or directory"):
        check_host_path(tmp_path / "new", kind)

    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("kind", "noun"),
    [
        ("FileOrCreate", "file"),
        ("File", "file"),
        ("DirectoryOrCreate", "directory"),
        ("Directory", "directory"),
        ("Socket", "socket file"),
        ("CharDevice", "character device"),
        ("BlockDevice", "block device"),
    ],
)
def test_path_of_another_type_is_an_error(tmp_path: Path, kind: str, noun: str) -> None:
    path = tmp_path / "other"
    if "File" in kind:
        path.mkdir()
    else:
        path.touch()

    with pytest.raises(HostPathError, match=f"other is not a {noun}$"):
        check_host_path(path, kind)


def test_sockets_and_devices_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        check_host_path(tmp_path / "s", "Socket")

    check_host_path(Path("/dev/null"), "CharDevice")


@pytest.mark.parametrize("kind", ["", "Pipe"])
def test_unknown_type_is_an_error(tmp_path: Path, kind: str) -> None:
    with pytest.raises(HostPathError, match=f"invalid hostPath type '{kind}'"):
        check_host_path(tmp_path, kind)
