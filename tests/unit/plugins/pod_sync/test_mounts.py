"""Tests for mounts and sub-paths."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from nodeagent.contracts.runtime import ImageMount, Mount, MountPropagation
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import ContainerError
from nodeagent.model.pod import VolumeMount
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.mounts import HostsContent, prepare_files, recursive_readonly, volume_parts
from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.subpaths import open_beneath, release_subpaths

NO_HOSTS = HostsContent((), "web", "")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.fixture
def paths(tmp_path: Path) -> PodPaths:
    return PodPaths(tmp_path / "pods" / "uid-web", tmp_path / "log", tmp_path / "log/pods", "default", "web", "uid-web")


def prepare(paths, volume, mount, *, readonly=False, hosts=NO_HOSTS, binds=None, variables=None, **fields):
    container = make_container("main", volume_mounts=[mount] if mount else None, **fields)
    pod = make_pod(containers=[container])
    parts = volume_parts(container, {"v": MountedVolume("v", str(volume), readonly)}, variables or {})

    def bind(source: Path, target: Path) -> None:
        if binds is not None:
            binds.append((os.readlink(source), str(target)))

    return prepare_files(pod, container, 0, paths, parts, hosts, first=True, bind=bind).mounts


@pytest.mark.parametrize(
    ("propagation_mode", "propagation"),
    [
        (None, MountPropagation.PRIVATE),
        ("None", MountPropagation.PRIVATE),
        ("HostToContainer", MountPropagation.HOST_TO_CONTAINER),
        ("Bidirectional", MountPropagation.BIDIRECTIONAL),
    ],
)
def test_volume_is_mounted_with_its_propagation(paths, volume, propagation_mode, propagation):
    mount = {"name": "v", "mountPath": "/data", "readOnly": True, "mountPropagation": propagation_mode}

    first = prepare(paths, volume, mount)[0]

    assert (first.container_path, first.host_path, first.readonly) == ("/data", str(volume), True)
    assert first.propagation is propagation


def test_read_only_volume_is_never_mounted_writable(paths, volume):
    assert prepare(paths, volume, {"name": "v", "mountPath": "/data"}, readonly=True)[0].readonly


def test_unknown_volume_is_named():
    container = make_container("main", volume_mounts=[{"name": "x", "mountPath": "/x"}])

    with pytest.raises(ContainerError, match="'x'"):
        volume_parts(container, {}, {})


def test_mounts_of_the_container_override_the_agents_files(paths, volume):
    mount = {"name": "v", "mountPath": "/etc/hosts"}

    mounts = prepare(paths, volume, mount, hosts=HostsContent(("10.0.0.1",), "web", ""))

    assert [m.host_path for m in mounts if m.container_path == "/etc/hosts"] == [str(volume)]


def test_pod_without_address_keeps_the_hosts_file_of_the_image(paths, volume):
    assert [m.container_path for m in prepare(paths, volume, None)] == ["/dev/termination-log"]


def test_sub_path_is_bind_mounted_outside_of_the_volume(paths, volume):
    binds: list[tuple[str, str]] = []

    mount = prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": "a/b"}, binds=binds)[0]

    assert mount.host_path == str(paths.subpaths / "v" / "main" / "0")
    assert binds == [(str(volume / "a/b"), mount.host_path)]
    assert (volume / "a/b").is_dir()


def test_sub_path_can_contain_variables(paths, volume):
    binds: list[tuple[str, str]] = []
    mount = {"name": "v", "mountPath": "/data", "subPathExpr": "$(NAME)/x"}

    prepare(paths, volume, mount, binds=binds, variables={"NAME": "web"})

    assert binds[0][0] == str(volume / "web/x")
    with pytest.raises(ContainerError, match="NAME"):
        prepare(paths, volume, mount)


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc", ".."])
def test_sub_path_cannot_contain_parent_references(paths, volume, path):
    with pytest.raises(ContainerError) as caught:
        prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": path})
    assert caught.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize("target", ["/etc", "../outside", "a/../../outside"])
def test_symlink_cannot_leave_the_volume(paths, volume, target):
    (volume / "a").mkdir()
    (volume.parent / "outside").mkdir()
    (volume / "link").symlink_to(target)

    with pytest.raises(ContainerError, match="path is outside of the volume"):
        prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": "link"})


@pytest.mark.parametrize("target", ["../outside", "ABSOLUTE"])
def test_directory_swapped_for_a_symlink_is_never_left(volume, target):
    outside = volume.parent / "outside"
    (outside / "inner").mkdir(parents=True)
    directory, aside, link = (volume / name for name in ("a", "aside", "link"))
    directory.mkdir()
    ended = threading.Event()

    def move_to_directory(source):
        while True:
            try:
                return source.rename(directory)
            except OSError:  # The directory was created in the meantime.
                shutil.rmtree(directory, ignore_errors=True)

    def swap():
        while not ended.is_set():
            link.symlink_to(outside if target == "ABSOLUTE" else target)
            directory.rename(aside)
            move_to_directory(link)
            directory.unlink()
            move_to_directory(aside)

    swapper = threading.Thread(target=swap, daemon=True)
    swapper.start()
    found, errors = set(), 0
    try:
        for _ in range(300):
            try:
                opened = open_beneath(volume, "a/inner/new", create=True)
            except OSError:
                errors += 1
                continue
            try:
                found.add(os.readlink(f"/proc/self/fd/{opened}").startswith(f"{volume}/"))
            finally:
                os.close(opened)
    finally:
        ended.set()
        swapper.join()

    assert found <= {True}
    assert found or errors
    assert [path.name for path in outside.rglob("*")] == ["inner"]


def test_symlink_within_the_volume_is_followed(volume):
    (volume / "..data").symlink_to("..2024")
    (volume / "..2024").mkdir()
    (volume / "..2024" / "key").write_text("value")
    (volume / "key").symlink_to("..data/key")

    opened = open_beneath(volume, "key", create=False)
    try:
        assert os.readlink(f"/proc/self/fd/{opened}") == str(volume / "..2024" / "key")
    finally:
        os.close(opened)


def test_directories_of_a_new_sub_path_have_the_mode_of_the_volume(volume):
    volume.chmod(0o2777)

    os.close(open_beneath(volume, "a/b", create=True))

    assert [stat.S_IMODE((volume / name).stat().st_mode) for name in ("a", "a/b")] == [0o2777, 0o2777]


def test_symlink_loop_is_an_error(volume):
    (volume / "a").symlink_to("b")
    (volume / "b").symlink_to("a")

    with pytest.raises(OSError) as caught:
        open_beneath(volume, "a", create=True)
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize(("links", "error"), [(40, None), (41, errno.ELOOP)])
def test_chain_of_symlinks_has_the_limit_of_the_kernel(volume, links, error):
    (volume / "0").write_text("end")
    for number in range(links):
        (volume / str(number + 1)).symlink_to(str(number))

    try:
        os.close(open_beneath(volume, str(links), create=False))
    except OSError as raised:
        assert raised.errno == error
    else:
        assert error is None


def test_read_only_volume_gets_no_new_directories(paths, volume):
    with pytest.raises(ContainerError, match="No such file"):
        prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": "new"}, readonly=True)
    assert list(volume.iterdir()) == []


def test_sub_paths_are_released_without_changing_the_volume(paths, volume):
    (volume / "file").write_text("x")
    prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": "file"})
    prepare(paths, volume, {"name": "v", "mountPath": "/data", "subPath": "dir"})

    release_subpaths(paths.subpaths)
    release_subpaths(paths.subpaths)

    assert not paths.subpaths.exists()
    assert (volume / "file").read_text() == "x"


@pytest.mark.parametrize(
    ("mode", "supported", "expected"),
    [
        (None, True, False),
        ("Disabled", True, False),
        ("IfPossible", True, True),
        ("IfPossible", False, False),
        ("Enabled", True, True),
    ],
)
def test_recursive_read_only_mode_follows_mount_and_runtime(mode, supported, expected):
    mount = VolumeMount(name="v", mount_path="/v", read_only=True, recursive_read_only=mode)

    assert recursive_readonly(mount, supported=supported) is expected


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"read_only": False}, "it is not read-only"),
        ({"mount_propagation": "HostToContainer"}, 'it is not compatible with propagation "HostToContainer"'),
        ({}, "it is not supported by the runtime"),
    ],
)
def test_impossible_recursive_read_only_mount_is_rejected(fields, problem):
    mount = VolumeMount(
        **{"name": "v", "mount_path": "/v", "read_only": True, "recursive_read_only": "Enabled", **fields}
    )

    with pytest.raises(ContainerError) as raised:
        recursive_readonly(mount, supported=False)

    assert str(raised.value).endswith(f'volume "v" requested recursive read-only mode, but {problem}')
    assert raised.value.reason == "CreateContainerConfigError"


def test_image_volume_is_mounted_read_only_with_its_subpath(paths):
    container = make_container("main", volume_mounts=[{"name": "v", "mountPath": "tools", "subPath": "usr/bin"}])
    parts = volume_parts(container, {"v": ImageMount("sha256:1", "tools:1")}, {})

    mounts = prepare_files(make_pod(containers=[container]), container, 0, paths, parts, NO_HOSTS, first=True).mounts

    assert mounts[0] == Mount("/tools", "", readonly=True, image=ImageMount("sha256:1", "tools:1", "usr/bin"))


def test_subpath_must_not_leave_the_image():
    container = make_container("main", volume_mounts=[{"name": "v", "mountPath": "/t", "subPath": "../etc"}])

    with pytest.raises(ContainerError):
        volume_parts(container, {"v": ImageMount("sha256:1")}, {})


@pytest.mark.parametrize(("path", "mounted"), [("", "/dev/termination-log"), ("/dev/own", "/dev/own")])
def test_termination_message_file_is_mounted_at_the_path_of_the_container(paths, volume, path, mounted):
    (mount,) = prepare(paths, volume, None, termination_message_path=path)

    assert mount.container_path == mounted


def test_hosts_file_is_written_only_if_it_changed(paths, volume):
    prepare(paths, volume, None, hosts=HostsContent(("10.0.0.1",), "web", ""))
    os.utime(paths.hosts, (1, 1))

    prepare(paths, volume, None, hosts=HostsContent(("10.0.0.1",), "web", ""))
    assert paths.hosts.stat().st_mtime == 1
    prepare(paths, volume, None, hosts=HostsContent(("10.0.0.2",), "web", ""))
    assert "10.0.0.2" in paths.hosts.read_text()


def test_file_that_cannot_be_created_is_named(paths, volume):
    paths.root.parent.mkdir(parents=True)
    paths.root.write_text("in the way")

    with pytest.raises(ContainerError) as raised:
        prepare(paths, volume, None)

    assert str(raised.value) == f"files of container main: {paths.root}: File exists"


def test_sub_path_that_cannot_be_prepared_is_named(paths, tmp_path):
    with pytest.raises(ContainerError) as raised:
        prepare(paths, tmp_path / "none", {"name": "v", "mountPath": "/data", "subPath": "a"})

    assert str(raised.value) == f"failed to prepare subPath 'a' of {tmp_path}/none: No such file or directory"
