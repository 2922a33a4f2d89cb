"""The node's own credentials are found where container tools write them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import Credentials
from nodeagent.testing import make_context
from nodeagent_plugins import image_pull
from nodeagent_plugins.image_pull.files import RegistryFiles


def files_in(*places: Path) -> RegistryFiles:
    return RegistryFiles([place / "config.json" for place in places], [place / ".dockercfg" for place in places])


def write(file: Path, user: str, *, old: bool = False) -> str:
    entries = {"https://reg.io/v1/": {"username": user, "password": "pw"}}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(entries if old else {"auths": entries}))
    return str(file)


async def test_the_first_file_that_can_be_read_counts(tmp_path: Path) -> None:
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


async def test_a_file_of_no_use_is_told_once_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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


def test_a_node_has_them_in_its_root_directory_and_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
