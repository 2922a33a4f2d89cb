"""Tests for the catalog of all CDI specs: directories, precedence and conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodeagent.base.cdi.catalog import Catalog, read_catalog
from nodeagent.base.cdi.spec import MAX_BYTES, CdiError

GPU = "example.com/gpu"


@pytest.fixture
def directories(tmp_path: Path) -> list[Path]:
    found = [tmp_path / "static", tmp_path / "dynamic"]
    for directory in found:
        directory.mkdir()
    return found


def write(path: Path, *devices: str, kind: str = GPU, shared: str = "") -> None:
    """Write a spec whose devices set a variable to the name of the file."""
    spec: dict[str, Any] = {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "devices": [{"name": name, "containerEdits": {"env": [f"{name}={path.stem}"]}} for name in devices],
        "containerEdits": {"env": [shared]} if shared else {},
    }
    path.write_bytes(msgspec.json.encode(spec))


def read(directories: list[Path]) -> Catalog:
    return read_catalog([str(directory) for directory in directories])


def test_edits_of_a_file_precede_those_of_its_devices_and_apply_once(directories: list[Path]) -> None:
    write(directories[0] / "a.json", "x", "y", shared="ALL=a")
    write(directories[1] / "b.yaml", "z", kind="example.com/nic")

    edits = read(directories).edits([f"{GPU}=y", "example.com/nic=z", f"{GPU}=x"])

    assert edits.env == ("ALL=a", "y=a", "z=b", "x=a")


def test_later_directory_takes_precedence(directories: list[Path]) -> None:
    write(directories[0] / "static.json", "x", "y")
    write(directories[1] / "dynamic.json", "x")

    catalog = read(directories)

    assert catalog.edits([f"{GPU}=x", f"{GPU}=y"]).env == ("x=dynamic", "y=static")
    assert (catalog.problems, catalog.specs) == ((), 2)


def test_device_of_two_files_in_one_directory_is_in_conflict(directories: list[Path]) -> None:
    paths = [directories[1] / "a.json", directories[1] / "b.json"]
    for path in paths:
        write(path, "x", path.stem)

    catalog = read(directories)

    assert catalog.devices == [f"{GPU}=a", f"{GPU}=b"]
    assert [problem.text for problem in catalog.problems] == [
        f"conflicting definitions of CDI device {GPU}=x in {paths[0]}, {paths[1]}"
    ]
    with pytest.raises(CdiError, match=f"unresolvable CDI devices {GPU}=x: not defined in .*; conflicting definitions"):
        catalog.edits([f"{GPU}=x"])


def test_later_directory_resolves_a_conflict(directories: list[Path]) -> None:
    for name in "ab":
        write(directories[0] / f"{name}.json", "x")
    write(directories[1] / "c.json", "x")

    assert read(directories).edits([f"{GPU}=x"]).env == ("x=c",)


def test_invalid_file_does_not_affect_others(directories: list[Path]) -> None:
    write(directories[0] / "good.json", "x")
    (directories[0] / "bad.yaml").write_text("kind: example.com/gpu")
    (directories[0] / "large.json").write_bytes(b" " * (MAX_BYTES + 1))
    (directories[0] / "ignored.txt").write_text("{")
    (directories[0] / "directory.json").mkdir()

    catalog = read(directories)

    assert catalog.devices == [f"{GPU}=x"]
    assert [problem.paths for problem in catalog.problems] == [
        (str(directories[0] / "bad.yaml"),),
        (str(directories[0] / "large.json"),),
    ]
    assert "cdiVersion" in catalog.problems[0].text
    assert f"must have at most {MAX_BYTES} bytes" in catalog.problems[1].text


def test_missing_directories_define_nothing(tmp_path: Path) -> None:
    catalog = read([tmp_path / "none"])

    assert (catalog.devices, catalog.problems) == ([], ())
    with pytest.raises(CdiError, match=f"unresolvable CDI devices {GPU}=x: not defined in {tmp_path}/none"):
        catalog.edits([f"{GPU}=x"])


def test_largest_spec_is_read(directories: list[Path]) -> None:
    write(directories[0] / "a.json", "x")
    file = directories[0] / "a.json"
    file.write_bytes(file.read_bytes().ljust(MAX_BYTES))
    assert read(directories).edits([f"{GPU}=x"]).env == ("x=a",)

    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(CdiError, match=f"must have at most {MAX_BYTES} bytes"):
        read(directories).edits([f"{GPU}=x"])
