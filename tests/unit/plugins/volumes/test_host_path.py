"""Tests for hostPath volumes."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from nodeagent.errors import VolumeError
from nodeagent_plugins.volumes.host_path import check_host_path
from nodeagent_plugins.volumes.manager import Manager

from .conftest import pod_with


async def test_nothing_is_checked_without_a_type(manager: Manager, tmp_path: Path) -> None:
    volume = (await manager.prepare(pod_with({"name": "v", "hostPath": {"path": str(tmp_path / "no")}})))["v"]

    assert volume.host_path == str(tmp_path / "no")
    assert not (tmp_path / "no").exists()


async def test_error_names_the_volume(manager: Manager, tmp_path: Path) -> None:
    source = {"path": str(tmp_path / "no"), "type": "Directory"}

    with pytest.raises(VolumeError, match=r"v: hostPath type check failed: .*/no: No such file or directory"):
        await manager.prepare(pod_with({"name": "v", "hostPath": source}))


def test_directory_is_created_with_its_parents(tmp_path: Path) -> None:
    check_host_path(tmp_path / "a/b", "DirectoryOrCreate")

    assert (tmp_path / "a/b").is_dir()


def test_file_is_created_without_parents(tmp_path: Path) -> None:
    check_host_path(tmp_path / "f", "FileOrCreate")
    check_host_path(tmp_path / "f", "FileOrCreate")

    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) & 0o644 == 0o644
    with pytest.raises(VolumeError, match="No such file"):
        check_host_path(tmp_path / "a/f", "FileOrCreate")


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "CharDevice", "BlockDevice", "DirectoryOrCreate"])
def test_path_must_match_its_type(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "f").touch()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
    there = {"d": "Directory", "f": "File", "s": "Socket", os.devnull: "CharDevice"}

    accepted = set()
    for name, what in there.items():
        try:
            check_host_path(Path(name), kind)
            accepted.add(what)
        except VolumeError as error:
            assert f"{name} is not a" in str(error)

    assert accepted == {kind.removesuffix("OrCreate")} & set(there.values())


def test_unknown_type_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="invalid hostPath type 'Tape'"):
        check_host_path(tmp_path, "Tape")
