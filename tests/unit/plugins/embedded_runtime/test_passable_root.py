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
