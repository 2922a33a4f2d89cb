"""Only a program of the one directory is run, and only one that not everybody can exchange."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.credential_exec.executables import find_directory, find_program


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "keys").touch(0o755)
    return find_directory(str(folder))


@pytest.mark.row("credential.name")
def test_finds_the_program_by_its_name(directory: Path) -> None:
    assert find_program(directory, "keys") == directory / "keys"


def test_a_link_within_the_directory_is_followed(directory: Path, tmp_path: Path) -> None:
    (directory / "other").symlink_to("keys")
    (tmp_path / "link").symlink_to(directory)

    assert find_program(directory, "other") == directory / "keys"
    assert find_directory(str(tmp_path / "link")) == directory


@pytest.mark.row("credential.name")
@pytest.mark.parametrize("name", ["", ".", "..", "../keys", "/bin/sh", "a/b", "a\0b"])
def test_a_name_with_a_path_is_refused(directory: Path, name: str) -> None:
    with pytest.raises(ValueError, match="must be a file name without a path"):
        find_program(directory, name)


def test_a_link_out_of_the_directory_is_refused(directory: Path) -> None:
    (directory / "shell").symlink_to("/bin/sh")
    (directory / "up").symlink_to("../bin/../bin2")
    directory.with_name("bin2").touch(0o755)

    for name in ("shell", "up"):
        with pytest.raises(ValueError, match="leads out of the directory"):
            find_program(directory, name)


def test_links_in_a_circle_are_refused(directory: Path) -> None:
    (directory / "one").symlink_to("two")
    (directory / "two").symlink_to("one")

    with pytest.raises(ValueError, match="cannot be opened: "):
        find_program(directory, "one")


@pytest.mark.parametrize(
    ("mode", "text"),
    [(0o757, "is writable for everybody"), (0o777, "is writable for everybody"), (0o644, "is not executable")],
)
def test_a_file_with_the_wrong_mode_is_refused(directory: Path, mode: int, text: str) -> None:
    (directory / "keys").chmod(mode)

    with pytest.raises(ValueError, match=text):
        find_program(directory, "keys")


@pytest.mark.row("credential.name")
def test_what_is_no_file_is_refused(directory: Path) -> None:
    (directory / "folder").mkdir()

    with pytest.raises(ValueError, match="is not a file"):
        find_program(directory, "folder")
    with pytest.raises(ValueError, match="cannot be opened: no such file or directory"):
        find_program(directory, "absent")


@pytest.mark.row("flag.image-credential-provider-bin-dir")
def test_a_bad_directory_is_refused(directory: Path) -> None:
    for given, text in ((directory / "keys", "is not a directory"), (directory / "absent", "cannot be opened")):
        with pytest.raises(ValueError, match=text):
            find_directory(str(given))
    directory.chmod(0o777)
    with pytest.raises(ValueError, match="writable for everybody"):
        find_directory(str(directory))
