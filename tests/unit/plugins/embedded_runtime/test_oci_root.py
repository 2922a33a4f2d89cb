"""Tests for the mounts and devices of a container, with the system calls replaced."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime.helpers import confined, oci_root, syscalls
from nodeagent_plugins.embedded_runtime.helpers.confined import FILE, opened

BIND, REC = syscalls.MS_BIND, syscalls.MS_REC


class Root:
    """A root file system; ``mounts`` are the requested ones with their mount point relative to the root.

    The source of bind mounts is ``/proc``, which may be mounted everywhere.
    """

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path, self.mounts, self.mount_ids = path, [], {"1"}
        (path / "proc").mkdir(parents=True)
        self.descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY)
        monkeypatch.setattr(oci_root.syscalls, "mount", self._mount)
        monkeypatch.setattr(oci_root, "_mount_ids", lambda: self.mount_ids)
        monkeypatch.setattr(oci_root, "_mount_id", lambda _descriptor: "2")

    def _mount(self, source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
        where = os.path.relpath(os.readlink(target), self.path) if target.startswith("/proc/self/fd") else target
        self.mounts.append((source, where, kind, flags, data))

    def mount(self, *options: str, source: str = "/proc", kind: str = "bind", groups: Any = None) -> list[Any]:
        entry = {"destination": "/data", "type": kind, "source": source, "options": list(options)}
        oci_root._mount(self.descriptor, entry, groups or {})
        return self.mounts


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Root]:
    root = Root(tmp_path / "root", monkeypatch)
    yield root
    os.close(root.descriptor)


def test_bind_mount_without_other_options_is_one_call(root: Root) -> None:
    assert root.mount("rbind", "rw") == [("/proc", "data", "", BIND | REC, "")]
    assert (root.path / "data").is_dir()


def test_file_is_mounted_on_a_file(root: Root) -> None:
    root.mount("bind", source="/proc/version")
    assert (root.path / "data").is_file()


@pytest.mark.parametrize(
    ("option", "flags"),
    [
        ("rprivate", syscalls.MS_PRIVATE | REC),
        ("rslave", syscalls.MS_SLAVE | REC),
        ("rshared", syscalls.MS_SHARED | REC),
    ],
)
def test_propagation_is_set_by_a_second_call(root: Root, option: str, flags: int) -> None:
    assert root.mount("rbind", option)[1:] == [("", "data", "", flags, "")]


@pytest.mark.parametrize(("option", "flag"), [("ro", syscalls.MS_RDONLY), ("noexec", syscalls.MS_NOEXEC)])
def test_flags_are_set_by_a_second_call(root: Root, option: str, flag: int) -> None:
    (call,) = root.mount("bind", option)[1:]
    assert call[3] & (syscalls.MS_REMOUNT | BIND | flag) == syscalls.MS_REMOUNT | BIND | flag


def test_propagation_precedes_flags(root: Root) -> None:
    _, propagation, flags = root.mount("rbind", "rslave", "ro")
    assert propagation[3] == syscalls.MS_SLAVE | REC and flags[3] & syscalls.MS_RDONLY


@pytest.mark.parametrize("option", ["rslave", "ro"])
def test_path_that_changed_since_the_mount_is_rejected(root: Root, option: str) -> None:
    root.mount_ids.add("2")
    with pytest.raises(PermissionError, match="the path changed"):
        root.mount("rbind", option)


def test_file_system_has_its_flags_and_data(root: Root) -> None:
    calls = root.mount("nosuid", "size=1m", "mode=755", source="tmpfs", kind="tmpfs")
    assert calls == [("tmpfs", "data", "tmpfs", syscalls.MS_NOSUID, "size=1m,mode=755")]


@pytest.mark.parametrize("kind", ["proc", "sysfs", "tmpfs"])
def test_only_other_file_systems_are_mounted_through_links(root: Root, kind: str) -> None:
    (root.path / "target").mkdir()
    (root.path / "data").symlink_to("target")
    if kind == "tmpfs":
        assert root.mount(kind=kind)[0][1] == "target"
    else:
        with pytest.raises(OSError, match="is a symbolic link"):
            root.mount(kind=kind)


def test_cgroups_of_version_2_are_one_mount(root: Root) -> None:
    calls = root.mount("ro", kind="cgroup", groups={"": "/sys/fs/cgroup/x"})
    assert calls == [("cgroup", "data", "cgroup2", syscalls.MS_RDONLY, "")]


@pytest.mark.parametrize("is_read_only", [True, False])
def test_cgroups_of_version_1_are_mounted_by_controller(root: Root, is_read_only: bool) -> None:
    calls = root.mount(*(["ro"] if is_read_only else []), kind="cgroup", groups={"cpu": "/sys/fs/cgroup/cpu/x"})

    assert calls[0][:3] == ("tmpfs", "data", "tmpfs")
    assert calls[1] == ("/sys/fs/cgroup/cpu/x", "data/cpu", "", BIND, "")
    assert [call[1] for call in calls[2:]] == (["data/cpu", "data"] if is_read_only else [])


def test_device_is_verified_by_kind_and_number() -> None:
    with open("/dev/null", "rb") as null, open("/dev/zero", "rb") as zero, open(__file__, "rb") as file:
        oci_root._check_device(null.fileno(), oci_root._NULL, "/dev/null")
        for other in (zero, file):
            with pytest.raises(PermissionError, match="/dev/null is another file"):
                oci_root._check_device(other.fileno(), oci_root._NULL, "/dev/null")


def test_volume_in_proc_replaces_only_some_files(root: Root) -> None:
    for name in ("meminfo", "kcore"):
        (root.path / "proc" / name).touch()

    def check(name: str, source: str = "/tmp") -> None:
        with opened(root.descriptor, f"proc/{name}") as point:
            oci_root._check_proc(root.descriptor, point, f"/proc/{name}", source)

    check("meminfo")
    check("kcore", "/proc")
    with pytest.raises(PermissionError, match="volumes in /proc are not permitted"):
        check("kcore")


@pytest.mark.parametrize(("number", "is_error"), [(errno.EROFS, False), (errno.EACCES, True)])
def test_existing_file_of_a_read_only_volume_is_used(
    root: Root, monkeypatch: pytest.MonkeyPatch, number: int, is_error: bool
) -> None:
    (root.path / "file").touch()
    open_file = os.open

    def fail(path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(number, os.strerror(number))
        return open_file(path, flags, *arguments, **options)

    monkeypatch.setattr(confined.os, "open", fail)
    if is_error:
        with pytest.raises(PermissionError), opened(root.descriptor, "file", create=FILE):
            pass
    else:
        with opened(root.descriptor, "file", create=FILE) as file:
            assert Path(os.readlink(f"/proc/self/fd/{file}")).name == "file"


@pytest.mark.parametrize(
    ("lines", "is_chroot"),
    [
        (["1 0 8:1 / / rw", "2 1 0:5 / /proc rw"], False),
        (["2 1 0:5 / /proc rw"], True),
        ([], True),
    ],
)
def test_root_without_a_mount_is_a_chroot(monkeypatch: pytest.MonkeyPatch, lines: list[str], is_chroot: bool) -> None:
    monkeypatch.setattr(oci_root.Path, "read_text", lambda _self, **_options: "\n".join(lines))
    assert oci_root.is_chroot() is is_chroot


@pytest.mark.parametrize(
    ("path", "point"),
    [("/run/a/b/rootfs", "/run/a"), ("/run/ab/rootfs", "/run"), ("/x/rootfs", "/"), ("/run/a/rootfs", "/run/a")],
)
def test_mount_around_a_root_is_the_longest_that_contains_it(
    monkeypatch: pytest.MonkeyPatch, path: str, point: str
) -> None:
    lines = [f"1 0 8:1 / {each} rw" for each in ("/", "/run", "/run/a", "/run/a/b/rootfs", "/run/a")]
    monkeypatch.setattr(oci_root.Path, "read_text", lambda _self, **_options: "\n".join(lines))
    assert oci_root._mount_above(Path(path)) == point


@pytest.mark.parametrize(("kind", "is_bound"), [("user", True), ("mount", False)])
def test_root_is_bound_to_itself_only_in_a_user_namespace(
    root: Root, monkeypatch: pytest.MonkeyPatch, kind: str, is_bound: bool
) -> None:
    monkeypatch.chdir(root.path)
    monkeypatch.setattr(oci_root, "is_chroot", lambda: False)
    monkeypatch.setattr(oci_root, "_stand_on", lambda _root: None)
    monkeypatch.setattr(oci_root, "_make_devices", lambda _root, _devices: os.open(os.devnull, os.O_PATH))
    for name in ("pivot_root", "unmount"):
        monkeypatch.setattr(oci_root.syscalls, name, lambda *_arguments: None)
    spec = {"linux": {"namespaces": [{"type": kind}]}, "mounts": [], "process": {}, "root": {}}
    path = str(root.path)

    assert oci_root.enter(path, spec, {}) == -1

    private = ("", path, "", syscalls.MS_PRIVATE, "")
    bound = [(path, path, "", BIND, ""), private] if is_bound else []
    assert root.mounts[1:-1] == [private, *bound]
