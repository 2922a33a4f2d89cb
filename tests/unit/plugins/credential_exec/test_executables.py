"""Tests for the lookup of provider executables."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.credential_exec.executables import find_directory, find_executable


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    (directory / "keys").touch(0o755)
    return find_directory(str(directory))


@pytest.mark.row("credential.name")
def test_executable_is_found_by_its_name(directory: Path) -> None:
    assert find_executable(directory, "keys") == directory / "keys"


def test_link_within_the_directory_is_followed(directory: Path, tmp_path: Path) -> None:
    (directory / "other").symlink_to("keys")
    (tmp_path / "link").symlink_to(directory)

    assert find_executable(directory, "other") == directory / "keys"
    assert find_directory(str(tmp_path / "link")) == directory


@pytest.mark.row("credential.name")
@pytest.mark.parametrize("name", ["", ".", "..", "../keys", "/bin/sh", "a/b", "a\0b"])
def test_name_with_a_path_is_rejected(directory: Path, name: str) -> None:
    with pytest.raises(ValueError, match="must be a file name without a path"):
        find_executable(directory, name)


def test_link_out_of_the_directory_is_rejected(directory: Path) -> None:
    (directory / "shell").symlink_to("/bin/sh")
    (directory / "up").symlink_to("../bin/../bin2")
    directory.with_name("bin2").touch(0o755)

    for name in ("shell", "up"):
        with pytest.raises(ValueError, match="a symbolic link to a file outside of the directory"):
            find_executable(directory, name)


def test_link_loop_is_rejected(directory: Path) -> None:
    (directory / "one").symlink_to("two")
    (directory / "two").symlink_to("one")

    with pytest.raises(ValueError, match="failed to open: "):
        find_executable(directory, "one")


@pytest.mark.parametrize(
    ("mode", "text"),
    [(0o757, "is world-writable"), (0o777, "is world-writable"), (0o644, "is not executable")],
)
def test_file_with_the_wrong_mode_is_rejected(directory: Path, mode: int, text: str) -> None:
    (directory / "keys").chmod(mode)

    with pytest.raises(ValueError, match=text):
        find_executable(directory, "keys")


@pytest.mark.row("credential.name")
def test_directory_instead_of_file_is_rejected(directory: Path) -> None:
    (directory / "folder").mkdir()

    with pytest.raises(ValueError, match="is not a file"):
        find_executable(directory, "folder")
    with pytest.raises(ValueError, match="failed to open: no such file or directory"):
        find_executable(directory, "absent")


@pytest.mark.row("flag.image-credential-provider-bin-dir")
def test_invalid_directory_is_rejected(directory: Path) -> None:
    for given, text in ((directory / "keys", "is not a directory"), (directory / "absent", "failed to open")):
        with pytest.raises(ValueError, match=text):
            find_directory(str(given))
    directory.chmod(0o777)
    with pytest.raises(ValueError, match="world-writable"):
        find_directory(str(directory))
