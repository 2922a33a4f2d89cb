"""Tests for the node's credential files."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import Credentials
from nodeagent.testing import make_context
from nodeagent_plugins import image_pull
from nodeagent_plugins.image_pull.files import RegistryFiles


def files_in(*directories: Path) -> RegistryFiles:
    return RegistryFiles(
        [directory / "config.json" for directory in directories],
        [directory / ".dockercfg" for directory in directories],
    )


def write(file: Path, user: str, *, old: bool = False) -> str:
    entries = {"https://reg.io/v1/": {"username": user, "password": "pw"}}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(entries if old else {"auths": entries}))
    return str(file)


async def test_first_readable_file_is_used(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    files = files_in(first, second)

    assert await files.credentials("reg.io/app") == []

    older = write(first / ".dockercfg", "old", old=True)
    assert await files.credentials("reg.io/app") == [Credentials("old", "pw", older)]

    newer = write(second / "config.json", "new")
    assert await files.credentials("reg.io/app") == [Credentials("new", "pw", newer)]

    write(first / "config.json", "root")
    assert [found.username for found in await files.credentials("reg.io/app")] == ["root"]
    assert await files.credentials("other.io/app") == []


async def test_invalid_file_is_logged_once_and_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (first / "config.json").write_text('{"auths": "hunter2"}')
    write(second / "config.json", "new")
    files = files_in(first, second)

    with caplog.at_level(logging.WARNING):
        found = [await files.credentials("reg.io/app"), await files.credentials("reg.io/app")]

    assert [[one.username for one in each] for each in found] == [["new"], ["new"]]
    assert len(caplog.records) == 1
    assert "hunter2" not in str(caplog.records[0].__dict__)


def test_search_paths_include_root_directory_and_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/op")

    (files,) = image_pull.nodeagent_provide_credential_providers(make_context(tmp_path))

    assert isinstance(files, RegistryFiles)
    home = Path("/home/op")
    assert files.new == [
        tmp_path / "config.json",
        Path("config.json"),
        home / ".docker/config.json",
        Path("/.docker/config.json"),
    ]
    assert files.old == [tmp_path / ".dockercfg", Path(".dockercfg"), home / ".dockercfg", Path("/.dockercfg")]
