"""Tests for mounts that are prepared for the OCI runtime: images, recursive read-only mounts and mapped owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import mount_sources
from nodeagent_plugins.embedded_runtime.errors import CallError, FailedPrecondition
from nodeagent_plugins.embedded_runtime.helpers import syscalls
from nodeagent_plugins.embedded_runtime.mount_sources import IMAGE_ATTRIBUTES, MountSources

IDS = [cri.IDMapping(host_id=1000, container_id=0, length=10)]


class Roots:
    """Mounts the layers of an image as a directory with one file."""

    def __init__(self) -> None:
        self.mounted: list[tuple[Path, list[Path], int]] = []

    def mount_layers(self, target: Path, layers: Any, user_namespace: int = -1) -> None:
        (target / "etc").mkdir()
        (target / "etc/file").touch()
        self.mounted.append((target, list(layers), user_namespace))


class Harness:
    """A container's directory in which clones of mounts are recorded."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.roots = root / "container", Roots()
        self.directory.mkdir()
        self.host = root / "host"
        (self.host / "data").mkdir(parents=True)
        (self.host / "file").touch()
        self.clones: list[tuple[str, str, int, int]] = []
        self.error: OSError | None = None
        monkeypatch.setattr(mount_sources.syscalls, "clone_mount", self._clone)

    def _clone(self, source: str, target: str, attributes: int, user_namespace: int) -> None:
        if self.error is not None:
            raise self.error
        kind = "directory" if Path(target).is_dir() else "file"
        assert kind == ("directory" if Path(source).is_dir() else "file")
        self.clones.append((source, target, attributes, user_namespace))

    def prepare(self, *mounts: cri.Mount, user_namespace: int = -1) -> list[str]:
        return self.sources(user_namespace).prepare(mounts)

    def sources(self, user_namespace: int = -1) -> MountSources:
        return MountSources(self.directory, self.roots, lambda name: [Path("/layers", name)], user_namespace)  # type: ignore[arg-type]

    def mount(self, name: str = "data", **fields: Any) -> cri.Mount:
        return cri.Mount(host_path=str(self.host / name), container_path="/x", **fields)


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    return Harness(tmp_path, monkeypatch)


def test_ordinary_mount_has_the_path_on_the_host(harness: Harness) -> None:
    (harness.host / "link").symlink_to("data")
    data = str(harness.host / "data")
    assert harness.prepare(harness.mount(), harness.mount("link", readonly=True), user_namespace=5) == [data, data]
    assert harness.clones == []


@pytest.mark.parametrize(
    ("fields", "attributes", "namespace"),
    [
        ({"recursive_read_only": True}, syscalls.MOUNT_ATTR_RDONLY, -1),
        ({"uidMappings": IDS}, 0, 7),
        ({"gidMappings": IDS}, 0, 7),
        ({"uidMappings": IDS, "gidMappings": IDS, "recursive_read_only": True}, syscalls.MOUNT_ATTR_RDONLY, 7),
    ],
)
@pytest.mark.parametrize("name", ["data", "file"])
def test_attributes_are_those_of_a_clone(
    harness: Harness, fields: dict[str, Any], attributes: int, namespace: int, name: str
) -> None:
    prepared = harness.prepare(harness.mount(), harness.mount(name, **fields), user_namespace=7)

    target = str(harness.directory / "mounts/1")
    assert prepared == [str(harness.host / "data"), target]
    assert harness.clones == [(str(harness.host / name), target, attributes, namespace)]


def test_mapped_owners_require_a_user_namespace(harness: Harness) -> None:
    with pytest.raises(FailedPrecondition, match="mount /x: ID mappings require a user namespace of the pod"):
        harness.prepare(harness.mount(uidMappings=IDS))
    assert harness.clones == []
    harness.prepare(harness.mount(uidMappings=IDS), user_namespace=0)
    harness.directory = harness.directory / "other"
    harness.directory.mkdir()
    harness.prepare(harness.mount(recursive_read_only=True))
    assert [clone[3] for clone in harness.clones] == [0, -1]


def test_rejected_attributes_name_the_mount(harness: Harness) -> None:
    harness.error = OSError(22, "Invalid argument")
    with pytest.raises(FailedPrecondition, match=r"mount /x: .*Invalid argument"):
        harness.prepare(harness.mount(recursive_read_only=True))
    with pytest.raises(FailedPrecondition, match=r"mount of .*Invalid argument"):
        harness.sources(7).map_owners(str(harness.host / "file"))


def test_owners_of_other_mounts_are_mapped_in_a_user_namespace(harness: Harness) -> None:
    file = str(harness.host / "file")
    assert harness.sources().map_owners(file) == file
    assert [harness.sources(0).map_owners(file) for _ in range(2)] == [
        str(harness.directory / f"mounts/cdi-{number}") for number in range(2)
    ]
    assert [clone[2:] for clone in harness.clones] == [(0, 0)] * 2


@pytest.mark.parametrize(("sub_path", "path"), [("", ""), ("etc", "/etc"), ("etc/file", "/etc/file")])
def test_image_is_mounted_read_only_and_without_executables(harness: Harness, sub_path: str, path: str) -> None:
    mount = cri.Mount(container_path="/x", image=cri.ImageSpec(image="a:1"), image_sub_path=sub_path)
    content = harness.directory / "images/0"

    assert harness.prepare(mount, user_namespace=7) == [str(harness.directory / "mounts/0")]
    assert harness.roots.mounted == [(content, [Path("/layers/a:1")], 7)]
    assert harness.clones == [(f"{content}{path}", str(harness.directory / "mounts/0"), IMAGE_ATTRIBUTES, -1)]


def test_missing_path_of_an_image_is_named(harness: Harness) -> None:
    mount = cri.Mount(container_path="/x", image=cri.ImageSpec(image="a:1"), image_sub_path="usr/none")
    with pytest.raises(CallError, match="ImageVolumeMountFailed: mount /x: the image has no usr/none"):
        harness.prepare(mount)
    assert harness.clones == []
