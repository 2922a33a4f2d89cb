"""Tests for the user namespace of a rootless runtime; system calls that change the process are replaced."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime import userns
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.userns import KEEPER, become_root, release

ID = 1000


class System:
    """A host with the file system *root*, on which a forked process reports *response* and sleeps."""

    def __init__(self, root: Path, sleeper: int) -> None:
        self.root, self.sleeper = root, sleeper
        self.response = b"ok"
        self.executables = {"newuidmap", "newgidmap"}
        self.exit_code = 0
        self.calls: list[Any] = []
        self.pipes: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        (root / "etc").mkdir()
        (root / "proc" / str(sleeper)).mkdir(parents=True)

    def grant(self, *lines: str) -> None:
        """Write the subordinate IDs."""
        for name in ("subuid", "subgid"):
            (self.root / "etc" / name).write_text("\n".join(lines))

    def mapped(self) -> dict[str, str]:
        """Return the files of the process in ``/proc`` that were written."""
        return {file.name: file.read_text() for file in (self.root / "proc" / str(self.sleeper)).iterdir()}

    def pipe(self) -> tuple[int, int]:
        self.pipes.append(os.pipe2(os.O_CLOEXEC))
        return self.pipes[-1]

    def fork(self) -> int:
        os.write(self.pipes[0][1], self.response)
        self.waiting.append(os.dup(self.pipes[1][0]))
        self.calls.append("fork")
        return self.sleeper

    def run(self, words: list[str], **_options: Any) -> SimpleNamespace:
        self.calls.append(words)
        return SimpleNamespace(returncode=self.exit_code)


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, sleeper: int) -> Iterator[System]:
    system = System(tmp_path_factory.mktemp("system"), sleeper)
    names = {"getuid": lambda: ID, "getgid": lambda: ID, "geteuid": lambda: ID, "pipe": system.pipe}
    names |= {"fork": system.fork, "setresuid": lambda *ids: system.calls.append(("uid", *ids))}
    names |= {"setresgid": lambda *ids: system.calls.append(("gid", *ids))}
    replaced = SimpleNamespace(**{**vars(os), **names})
    monkeypatch.setattr(userns, "os", replaced)
    monkeypatch.setattr(userns, "pwd", SimpleNamespace(getpwuid=lambda _: SimpleNamespace(pw_name="agent")))
    monkeypatch.setattr(userns, "subprocess", SimpleNamespace(run=system.run))
    monkeypatch.setattr(userns, "syscalls", SimpleNamespace(join=system.calls.append))
    monkeypatch.setattr(userns, "Path", lambda path: system.root / path.lstrip("/"))
    monkeypatch.setattr(userns, "find_executable", lambda name: f"/bin/{name}" if name in system.executables else "")
    yield system
    for descriptor in system.waiting:
        os.close(descriptor)


def joined(pid: int) -> list[Any]:
    return [f"/proc/{pid}/ns/user", ("gid", 0, 0, 0), ("uid", 0, 0, 0), f"/proc/{pid}/ns/mnt"]


def map_calls(pid: int, first: int = 100000, count: int = 65536) -> list[Any]:
    return [[f"/bin/new{kind}map", str(pid), "0", str(ID), "1", "1", str(first), str(count)] for kind in ("uid", "gid")]


def test_root_needs_no_namespace(system: System, tmp_path: Path) -> None:
    system_os: Any = userns.os
    system_os.geteuid = lambda: 0

    become_root(tmp_path)

    assert system.calls == [] and not (tmp_path / KEEPER).exists()


def test_namespace_is_kept_across_restarts(system: System, sleeper: int, tmp_path: Path) -> None:
    system.grant("agent:100000:65536")
    become_root(tmp_path)
    assert system.calls == ["fork", *map_calls(sleeper), *joined(sleeper)]
    assert os.read(system.waiting[0], 8) == b"g"
    system.calls.clear()

    become_root(tmp_path)

    assert system.calls == joined(sleeper)
    assert Process(**json.loads((tmp_path / KEEPER).read_text())) == Process.of(sleeper)


@pytest.mark.parametrize("content", ["", "[]", '{"pid": 1}', '{"pid": 1, "started": 0, "boot": "another"}'])
def test_namespace_is_recreated_if_its_process_does_not_run(
    system: System, sleeper: int, tmp_path: Path, content: str
) -> None:
    (tmp_path / KEEPER).write_text(content)

    become_root(tmp_path)

    assert system.calls == ["fork", *joined(sleeper)]


def test_failure_to_create_the_namespace_is_raised(system: System, tmp_path: Path) -> None:
    system.response = b"Operation not permitted"

    with pytest.raises(OSError, match="failed to create user namespace: Operation not permitted"):
        become_root(tmp_path)

    assert not (tmp_path / KEEPER).exists()
    os.close(system.pipes[1][1])


def test_process_that_exits_immediately_is_reported(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Process, "of", lambda _: None)

    with pytest.raises(OSError, match="exited immediately"):
        become_root(tmp_path)


@pytest.mark.parametrize(
    ("lines", "calls"),
    [
        (["other:5:6", f"{ID}:200000:100", "agent:300000:100"], (200000, 100)),
        (["agents:5:6", "agent:200000:100"], (200000, 100)),
        (["other:5:6"], None),
        ([], None),
    ],
)
def test_first_range_of_the_user_is_mapped(
    system: System, sleeper: int, tmp_path: Path, lines: list[str], calls: tuple[int, int] | None
) -> None:
    system.grant(*lines)

    become_root(tmp_path)

    assert system.calls[1:-4] == (map_calls(sleeper, *calls) if calls else [])
    own = {"setgroups": "deny", "uid_map": f"0 {ID} 1", "gid_map": f"0 {ID} 1"}
    assert system.mapped() == ({} if calls else own)


@pytest.mark.parametrize(
    ("kind", "files"),
    [("uid", {"gid_map": f"0 {ID} 1", "setgroups": "deny"}), ("gid", {"uid_map": f"0 {ID} 1"})],
)
def test_groups_are_denied_only_with_a_single_mapped_group(
    system: System, tmp_path: Path, kind: str, files: dict[str, str]
) -> None:
    (system.root / "etc" / f"sub{kind}").write_text("agent:100000:65536")

    become_root(tmp_path)

    assert system.mapped() == files


@pytest.mark.parametrize(("executables", "exit_code"), [(set(), 0), ({"newuidmap", "newgidmap"}, 1)])
def test_only_the_own_user_is_mapped_if_the_range_cannot_be(
    system: System, tmp_path: Path, executables: set[str], exit_code: int
) -> None:
    system.grant("agent:100000:65536")
    system.executables, system.exit_code = executables, exit_code

    become_root(tmp_path)

    assert system.mapped() == {"setgroups": "deny", "uid_map": f"0 {ID} 1", "gid_map": f"0 {ID} 1"}


def test_user_without_a_name_maps_only_itself(system: System, tmp_path: Path) -> None:
    system.grant("agent:100000:65536")
    module: Any = userns.pwd
    module.getpwuid = lambda uid: pwd.getpwuid(-2 - uid)

    become_root(tmp_path)

    assert system.mapped() == {"setgroups": "deny", "uid_map": f"0 {ID} 1", "gid_map": f"0 {ID} 1"}


def test_released_namespace_ends_with_its_process(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        keeper = Process.of(process.pid)
        assert keeper is not None
        file = tmp_path / KEEPER
        file.write_text(json.dumps({"pid": keeper.pid, "started": keeper.started, "boot": keeper.boot}))

        release(tmp_path)

        assert process.wait() == -9
    assert not file.exists()


def test_release_without_a_namespace_does_nothing(tmp_path: Path) -> None:
    release(tmp_path)

    assert list(tmp_path.iterdir()) == []
