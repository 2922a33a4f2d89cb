"""Tests for the path by which users of pods reach the runtime's directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime import passable_root
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.passable_root import find_closed, make_passable

ROOT_HOST = Host(frozenset(), remapped=False, cgroup_version=2, oom_score_adj=0)


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    root = tmp_path / "closed" / "root"
    root.mkdir(parents=True)
    root.parent.chmod(0o700)
    return root


def test_directory_without_access_for_other_users_is_found(closed: Path) -> None:
    assert find_closed(closed) in (closed.parent, *closed.parent.parents)


@pytest.mark.parametrize("host", [replace(ROOT_HOST, remapped=True), replace(ROOT_HOST, chrooted=True)])
def test_host_without_user_namespaces_keeps_the_path(closed: Path, host: Host) -> None:
    assert make_passable(closed, host) == closed


def test_runtime_starts_if_the_mount_fails(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(passable_root, "ALIASES", tmp_path / "closed" / "root" / "file" / "aliases")
    (closed / "file").touch()

    assert make_passable(closed, ROOT_HOST) == closed
    assert "Failed to mount runtime directory" in caplog.text


class Mounts:
    """Mounts at the alias of a directory; the alias is that of another directory unless ``current``."""

    def __init__(self, alias: Path) -> None:
        self.alias, self.number, self.current = alias, 0, True
        self.calls: list[str] = []

    def points(self, directory: Path) -> list[str]:
        return [str(self.alias)] * self.number if directory == self.alias else []

    def mount(self, source: str, target: str, *, flags: int) -> None:
        assert target == str(self.alias)
        if source:
            self.number += 1
            self.calls.append("mount")

    def unmount(self, target: str) -> None:
        assert target == str(self.alias)
        self.number -= 1
        self.calls.append("unmount")


@pytest.fixture
def mounts(closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mounts:
    monkeypatch.setattr(passable_root, "ALIASES", tmp_path / "aliases")
    mounts = Mounts(passable_root.alias_of(closed))
    monkeypatch.setattr(passable_root, "mount_points", mounts.points)
    monkeypatch.setattr(passable_root.syscalls, "mount", mounts.mount)
    monkeypatch.setattr(passable_root.syscalls, "unmount", mounts.unmount)
    monkeypatch.setattr(passable_root.Path, "samefile", lambda *_: mounts.current)
    return mounts


@pytest.mark.parametrize(
    ("number", "current", "calls"),
    [(0, True, ["mount"]), (0, False, ["mount"]), (1, True, []), (1, False, ["unmount", "mount"])],
)
def test_directory_is_mounted_once_where_other_users_pass(
    closed: Path, mounts: Mounts, number: int, current: bool, calls: list[str]
) -> None:
    mounts.number, mounts.current = number, current

    assert make_passable(closed, ROOT_HOST) == mounts.alias
    assert mounts.calls == calls and mounts.number == 1


def test_released_directory_is_not_mounted(closed: Path, mounts: Mounts) -> None:
    passable_root.release(closed)
    make_passable(closed, ROOT_HOST)
    mounts.number = 2

    passable_root.release(closed)

    assert mounts.number == 0 and not mounts.alias.exists()
