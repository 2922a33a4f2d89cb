"""Tests for the launcher of executables; system calls that change the process are replaced."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent_plugins.external_plugins import launcher


class System:
    """Records the system calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        for name in ("umask", "chdir", "setgroups", "setresgid", "setresuid", "execvp"):
            monkeypatch.setattr(launcher.os, name, lambda *values, name=name: self.calls.append((name, *values)))
        monkeypatch.setattr(launcher.os, "getppid", lambda: 7)
        monkeypatch.setattr(launcher.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(prctl=lambda *_: 0))

    def launch(self, **changes: Any) -> list[str]:
        request = {"parent": 7, "cgroups": [], "uid": None, "gid": None, "directory": "/d", "command": ["/bin/a", "b"]}
        launcher.launch({**request, **changes})
        return [name for name, *_ in self.calls]


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> System:
    return System(monkeypatch)


@pytest.mark.parametrize(("uid", "changes"), [(5, ["setgroups", "setresgid", "setresuid"]), (None, [])])
def test_user_is_changed_before_the_command_is_executed(system: System, uid: int | None, changes: list[str]) -> None:
    assert system.launch(uid=uid, gid=uid) == ["umask", "chdir", *changes, "execvp"]
    assert system.calls[-1] == ("execvp", "/bin/a", ["/bin/a", "b"])


def test_process_joins_its_cgroups(system: System, tmp_path: Path) -> None:
    system.launch(cgroups=[str(tmp_path / "cgroup.procs")])

    assert (tmp_path / "cgroup.procs").read_text() == "0"


def test_nothing_is_executed_after_the_agent_has_exited(system: System) -> None:
    with pytest.raises(SystemExit) as raised:
        system.launch(parent=8)

    assert raised.value.code == 0
    assert "execvp" not in [name for name, *_ in system.calls]


@pytest.mark.parametrize(
    ("content", "denied", "reason"),
    [
        ("binary", "", ""),
        ("binary", "run", "cannot execute {root}/run"),
        ("binary", "", ""),
        ("binary", ".", "cannot access directory {root}, which contains {root}/run"),
        ("#!{root}/shell -e", "shell", "cannot execute {root}/shell"),
        ("#!{root}/shell -e", "", ""),
        ("#!{root}/none", "none", "cannot execute {root}/none"),
        ("#!{root}/none", "", "cannot read {root}/none"),
    ],
)
def test_reason_why_a_command_cannot_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, denied: str, reason: str
) -> None:
    (tmp_path / "shell").write_text("binary")
    (tmp_path / "run").write_text(content.format(root=tmp_path))
    missing = os.path.normpath(tmp_path / denied) if denied else ""
    monkeypatch.setattr(launcher.os, "access", lambda path, _: str(path) != missing)

    found = launcher.obstacle(str(tmp_path / "run"))

    assert found.partition(" ")[2].partition(" ")[2] == reason.format(root=tmp_path)


@pytest.mark.parametrize(("reason", "text"), [("user 5 cannot", "user 5 cannot"), ("", "/bin/a")])
def test_rejected_command_is_reported_with_the_obstacle(
    system: System, monkeypatch: pytest.MonkeyPatch, reason: str, text: str
) -> None:
    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(launcher.os, "execvp", fail)
    monkeypatch.setattr(launcher, "obstacle", lambda _: reason)

    with pytest.raises(OSError, match=f"^Permission denied: {text}$"):
        system.launch()
