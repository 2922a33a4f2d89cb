"""Tests for the validation of mounts, and for mount points of kernel file systems in images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import mounts
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.mounts import check, check_root
from nodeagent_plugins.embedded_runtime.users import User


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
@pytest.mark.parametrize("target", ["/tmp", "missing"])
def test_link_at_a_mount_point_is_rejected(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "proc").mkdir()
    check_root(tmp_path)
    (tmp_path / "proc").rmdir()
    (tmp_path / name).symlink_to(target)

    with pytest.raises(FailedPrecondition, match=f"/{name} of the image is a symbolic link"):
        check_root(tmp_path)


def mount(path: str, **fields: Any) -> cri.Mount:
    return cri.Mount(**{"container_path": "/data", "host_path": path, **fields})


def test_missing_source_of_a_mount_is_created_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    check([mount(str(tmp_path / "a/b")), mount(str(tmp_path / "file"))])

    assert (tmp_path / "a/b").is_dir()
    assert (tmp_path / "file").is_file()


def test_incomplete_or_contradictory_mount_is_rejected(tmp_path: Path) -> None:
    image = cri.ImageSpec(image="i")
    check([mount("", image=image), mount(str(tmp_path), recursive_read_only=True, readonly=True)])
    slave = cri.PROPAGATION_HOST_TO_CONTAINER
    for wrong, text in [
        (mount(str(tmp_path), container_path=""), "requires container_path"),
        (mount(""), "either host_path or image"),
        (mount(str(tmp_path), image=image), "either host_path or image"),
        (mount(str(tmp_path), recursive_read_only=True), "requires a private read-only mount"),
        (mount(str(tmp_path), recursive_read_only=True, readonly=True, propagation=slave), "a private read-only mount"),
    ]:
        with pytest.raises(InvalidArgument, match=text):
            check([wrong])


def test_propagation_requires_a_shared_mount_of_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both, slave = cri.PROPAGATION_BIDIRECTIONAL, cri.PROPAGATION_HOST_TO_CONTAINER
    for fields, permitted in [("shared:1", {both, slave}), ("master:1", {slave}), ("", set())]:
        monkeypatch.setattr(mounts, "_propagation", lambda path, fields=fields: fields)
        check([mount(str(tmp_path))])
        for propagation in (both, slave):
            if propagation in permitted:
                check([mount(str(tmp_path), propagation=propagation)])
            else:
                with pytest.raises(FailedPrecondition, match="is not on a shared mount of the node"):
                    check([mount(str(tmp_path), propagation=propagation)])


def test_ids_have_to_be_mapped_in_the_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_mapped", lambda kind: [range(1), range(100, 110)])

    assert mounts.check_mapped(User(109, 0, (0, 100, 110), "/srv")) == User(109, 0, (0, 100), "/srv")
    with pytest.raises(FailedPrecondition, match="user 110 is not mapped in this user namespace; mapped: 0, 100-109"):
        mounts.check_mapped(User(110, 0))
    with pytest.raises(FailedPrecondition, match="group 1 is not mapped"):
        mounts.check_mapped(User(0, 1))


@pytest.mark.parametrize(
    ("lines", "shared"),
    [
        (["/ shared:1"], True),
        (["/ shared:1", "{source} master:1"], False),
        (["{source} master:1", "{source} shared:1"], True),
        (["{source} shared:1", "{source}/below master:1"], True),
        (["{source} shared:1", "/ master:1"], True),
    ],
)
def test_propagation_is_that_of_the_last_mount_at_the_longest_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], shared: bool
) -> None:
    (source := tmp_path / "source").mkdir()
    points = [line.format(source=source).split() for line in lines]
    table = "".join(f"1 2 8:1 / {point} rw {fields} - ext4 /dev/sda1 rw\n" for point, fields in points)
    (tmp_path / "mountinfo").write_text(table)
    replaced = {"/proc/self/mountinfo": tmp_path / "mountinfo"}
    monkeypatch.setattr(mounts, "Path", lambda path: replaced.get(path, Path(path)))
    requested = [mount(str(source), propagation=cri.PROPAGATION_BIDIRECTIONAL)]

    if shared:
        check(requested)
    else:
        with pytest.raises(FailedPrecondition, match="is not on a shared mount of the node"):
            check(requested)
