"""Tests for NFS volumes, with a script in place of ``mount``."""

from __future__ import annotations

import errno
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeSpec
from nodeagent.errors import UncertainVolumeError, VolumeError
from nodeagent.model.pod import Volume
from nodeagent.testing import make_pod
from nodeagent.testing.contracts import PersistentVolumeKindContract
from nodeagent_plugins.in_tree_volumes import nfs as module
from nodeagent_plugins.in_tree_volumes.nfs import NfsVolumes

from .fake_mounter import FakeMounter, pv_spec


class HostMounter(FakeMounter):
    """Mount table that contains what the script of the host mounted."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    def listed(self, target: Path) -> bool:
        return str(target) in self.lines() or super().listed(target)

    def lines(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []

    def unmount(self, target: Path, *, force: bool = False) -> None:
        super().unmount(target, force=force)
        self._log.unlink(missing_ok=True)


class Host:
    """Host with the commands ``mount`` and ``mount.nfs``."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "bin"
        self.path.mkdir()
        self.log = directory / "mounted"
        self.mounter = HostMounter(self.log)
        self.install("mount", f'echo "$@" > {self.log}')
        self.install("mount.nfs", "")

    def install(self, name: str, script: str) -> None:
        file = self.path / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def kind(self) -> NfsVolumes:
        return NfsVolumes(self.mounter, f"{self.path}:/usr/bin:/bin")


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def export(server: str = "files", **spec: Any) -> VolumeSpec:
    return pv_spec({"nfs": {"server": server, "path": "/srv"}}, **spec)


def request_of(spec: VolumeSpec, tmp_path: Path) -> MountRequest:
    directory = tmp_path / "pods/uid-web/volumes/kubernetes.io~nfs" / spec.name
    directory.parent.mkdir(parents=True, exist_ok=True)
    return MountRequest(make_pod(), spec, directory)


class TestNfs(PersistentVolumeKindContract):
    @pytest.fixture
    def kind(self, host: Host) -> NfsVolumes:
        return host.kind()

    @pytest.fixture
    def spec(self) -> VolumeSpec:
        return export()


@pytest.mark.parametrize(
    ("spec", "arguments"),
    [
        (export(), "-t nfs files:/srv"),
        (export("2001:db8::1"), "-t nfs [2001:db8::1]:/srv"),
        (export(read_only=True, mountOptions=["nfsvers=4.1", "hard"]), "-t nfs -o hard,nfsvers=4.1,ro files:/srv"),
        (VolumeSpec("data", Volume(name="data", nfs={"server": "files", "path": "/x"}), read_only=True),
         "-t nfs -o ro files:/x"),
    ],
)  # fmt: skip
async def test_export_is_mounted_with_its_options(host: Host, tmp_path: Path, spec: VolumeSpec, arguments: str) -> None:
    request = request_of(spec, tmp_path)
    mounted = await host.kind().mount(request)

    assert host.mounter.lines() == [*arguments.split(), str(request.directory)]
    assert mounted.readonly is spec.read_only


async def test_failed_mount_reports_the_output(host: Host, tmp_path: Path) -> None:
    host.install("mount", "echo access denied; exit 32")
    request = request_of(export(), tmp_path)

    with pytest.raises(
        VolumeError, match=r"^mount failed: exit status 32\n.*\nMounting arguments: -t nfs .*\nOutput: acc"
    ):
        await host.kind().mount(request)
    assert not request.directory.exists()


async def test_missing_helper_is_reported(host: Host, tmp_path: Path) -> None:
    (host.path / "mount.nfs").unlink()

    with pytest.raises(VolumeError, match=r"needs mount\.nfs on the node"):
        await NfsVolumes(host.mounter, str(host.path)).mount(request_of(export(), tmp_path))


async def test_dead_server_leaves_an_uncertain_mount(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOUNT_SECONDS", 0.05)
    host.install("mount", "exec sleep 60")
    kind, request = host.kind(), request_of(export(), tmp_path)

    with pytest.raises(UncertainVolumeError, match="mount of files:/srv timed out"):
        await kind.mount(request)
    assert request.directory.exists()


async def test_unmount_of_a_dead_server_is_forced(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "UNMOUNT_SECONDS", 0.05)
    kind, request = host.kind(), request_of(export(), tmp_path)
    await kind.mount(request)
    released = threading.Event()
    real = host.mounter.unmount

    def hang(target: Path, *, force: bool = False) -> None:
        if not force:
            released.wait()
        real(target, force=force)

    monkeypatch.setattr(host.mounter, "unmount", hang)
    await kind.unmount(kind.reconstruct("uid-web", request.directory, VolumeMode.FILESYSTEM))
    released.set()

    assert host.mounter.forced == [request.directory] and not request.directory.exists()


class DeadServer:
    """A server whose pending requests keep its mount busy until they are aborted.

    :param requests: number of attempts to abort them before they return.
    """

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
        self._requests, self.aborted = requests, threading.Event()
        self._unmount = host.mounter.unmount
        monkeypatch.setattr(host.mounter, "unmount", self.unmount)
        monkeypatch.setattr(host.mounter, "query", self.query)

    def unmount(self, target: Path, *, force: bool = False) -> None:
        self._requests -= force
        if self._requests >= 0:
            raise OSError(errno.EBUSY, "Device or resource busy")
        self.aborted.set()
        self._unmount(target, force=force)

    def query(self, target: Path) -> None:
        assert self.aborted.wait(60)


@pytest.mark.parametrize(("requests", "ends"), [(1, True), (4, True), (5, False)])
async def test_busy_volume_of_a_dead_server_is_unmounted_by_force(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests: int, ends: bool
) -> None:
    monkeypatch.setattr(module, "UNMOUNT_SECONDS", 0.05)
    monkeypatch.setattr(module, "ABORT_SECONDS", 0.001)
    kind, request = host.kind(), request_of(export(), tmp_path)
    await kind.mount(request)
    server = DeadServer(host, monkeypatch, requests)

    with nullcontext() if ends else pytest.raises(VolumeError, match="Device or resource busy"):
        await kind.unmount(kind.reconstruct("uid-web", request.directory, VolumeMode.FILESYSTEM))

    server.aborted.set()
    assert request.directory.exists() != ends


@pytest.mark.parametrize("error", [None, OSError(errno.ESTALE, "Stale file handle")])
async def test_busy_volume_of_a_server_that_responds_is_not_unmounted_by_force(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    def query(target: Path) -> None:
        if error is not None:
            raise error

    kind, request = host.kind(), request_of(export(), tmp_path)
    await kind.mount(request)
    host.mounter.busy.add(request.directory)
    monkeypatch.setattr(host.mounter, "query", query)

    with pytest.raises(VolumeError, match="Device or resource busy"):
        await kind.unmount(kind.reconstruct("uid-web", request.directory, VolumeMode.FILESYSTEM))

    assert host.mounter.forced == [] and request.directory.exists()


@pytest.mark.parametrize("server", ["", "-o"])
async def test_invalid_source_is_rejected(host: Host, tmp_path: Path, server: str) -> None:
    with pytest.raises(VolumeError, match="invalid NFS source"):
        await host.kind().mount(request_of(export(server), tmp_path))
