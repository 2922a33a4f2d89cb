"""Tests for the storage checks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from nodeagent.base.mounts.table import MountEntry
from nodeagent.contracts.checks import Severity
from nodeagent_plugins.node_checks import mounts as module
from nodeagent_plugins.node_checks.mounts import (
    check_drivers,
    check_orphaned_mounts,
    check_propagation,
    driver_sockets,
)

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def entry(path: Path | str, *propagation: str) -> MountEntry:
    return MountEntry(1, 1, "8:1", "/", str(path), (), propagation, "ext4", "/dev/sda1")


def test_mounts_of_unknown_pods_are_orphaned(tmp_path: Path) -> None:
    mounts = []
    for uid in ("known", "gone", "new"):
        path = tmp_path / "pods" / uid / "volumes/kubernetes.io~csi/pv/mount"
        path.mkdir(parents=True)
        mounts.append(entry(path))
    os.utime(tmp_path / "pods/gone", (0, 0))
    now = (tmp_path / "pods/new").stat().st_mtime

    (finding,) = check_orphaned_mounts(tmp_path, frozenset(["known"]), mounts, now)
    assert finding.text == f"1 orphaned mount of deleted pods: {mounts[1].path}"


@pytest.mark.parametrize(("propagation", "findings"), [((), 1), (("master:1",), 1), (("shared:2",), 0)])
def test_root_directory_must_be_a_shared_mount(tmp_path: Path, propagation: tuple[str, ...], findings: int) -> None:
    mounts = [entry("/", "shared:1"), entry(tmp_path, *propagation)]
    assert check_propagation(tmp_path, mounts, used=True) == []  # No agent has started there.
    (tmp_path / "plugins_registry").mkdir()
    for used, severity in ((True, Severity.PROBLEM), (False, Severity.WARNING)):
        found = check_propagation(tmp_path, mounts, used=used)
        assert [each.severity for each in found] == [severity] * findings


async def test_driver_that_does_not_respond_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESPONSE_SECONDS", 0.1)
    monkeypatch.chdir(tmp_path)  # Paths of sockets are limited to about 100 characters.
    for name in ("plugins_registry", "plugins/dead", "plugins/hung", "plugins/well"):
        Path(name).mkdir(parents=True)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(module._PREFACE))
        writer.write(SETTINGS)
        await writer.drain()
        writer.close()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    servers = [
        await asyncio.start_unix_server(handler, path)
        for path, handler in (("plugins/well/csi.sock", respond), ("plugins/hung/csi.sock", hang))
    ]
    dead = await asyncio.start_unix_server(hang, "plugins/dead/csi.sock")
    dead.close()
    Path("plugins_registry/file.sock").touch()
    sockets = driver_sockets(Path())
    texts = [finding.text for finding in await check_drivers(sockets)]
    for server in servers:
        server.close()

    unserved = (
        []
        if not Path("plugins/dead/csi.sock").exists()
        else ["CSI driver at plugins/dead/csi.sock does not respond: connection refused"]
    )
    assert texts == [*unserved, "CSI driver at plugins/hung/csi.sock does not respond: no response within 0 s"]


@pytest.mark.parametrize(("count", "more"), [(5, False), (6, True)])
def test_some_of_many_orphaned_mounts_are_listed(tmp_path: Path, count: int, more: bool) -> None:
    pod = tmp_path / "pods/gone"
    pod.mkdir(parents=True)
    os.utime(pod, (1000, 1000))
    mounts = [entry(pod / f"volumes/kind/{number}") for number in range(count)]

    assert check_orphaned_mounts(tmp_path, frozenset(), mounts, 1000 + module.ORPHAN_SECONDS) == []
    (finding,) = check_orphaned_mounts(tmp_path, frozenset(), mounts, 1001 + module.ORPHAN_SECONDS)

    assert finding.text.startswith(f"{count} orphaned mounts of deleted pods: ")
    assert finding.text.count(str(pod)) == 5
    assert finding.text.endswith(", …") is more
