"""Tests for the API server of tests, with a recorded process instead of a server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nodeagent.testing import apiserver
from nodeagent.testing.apiserver import ApiServerFailed, started_apiserver, usual_options


class Process:
    """A process that writes the file of a server that is ready, unless it has an exit code.

    :cvar code: exit code of the process, or ``None`` while it runs.
    """

    code: int | None = None
    hangs = False
    calls: list[str]

    def __init__(self, command: list[str], stdout: Any, **_: Any) -> None:
        type(self).calls = []
        self.returncode = self.code
        stdout.write(b"output\n")
        data = next(option.partition("=")[2] for option in command if option.startswith("--data-dir"))
        if self.code is None:
            ready = {"url": data, "caFile": "ca", "token": "t", "kubeconfig": "k", "nodeKubeconfig": "n"}
            (Path(data) / "ready.json").write_text(json.dumps(ready))

    def poll(self) -> int | None:
        return self.returncode

    def terminate(self) -> None:
        self.calls.append("terminate")

    def kill(self) -> None:
        self.calls.append("kill")

    def wait(self, timeout: float | None = None) -> None:
        if self.hangs and timeout is not None:
            raise subprocess.TimeoutExpired("x", timeout)


@pytest.fixture(autouse=True)
def process(monkeypatch: pytest.MonkeyPatch) -> type[Process]:
    class Started(Process):
        pass

    monkeypatch.setattr(apiserver.subprocess, "Popen", Started)
    return Started


def test_server_has_its_own_or_a_temporary_directory(tmp_path: Path, process: type[Process]) -> None:
    with started_apiserver(data_dir=tmp_path / "new") as server:
        assert server.data_dir == Path(server.url) == tmp_path / "new"
    with started_apiserver() as server:
        assert server.data_dir.is_dir() and server.data_dir != tmp_path / "new"
    assert not server.data_dir.exists()
    assert process.calls == ["terminate"]


@pytest.mark.parametrize(("hangs", "calls"), [(False, ["terminate"]), (True, ["terminate", "kill"])])
def test_server_that_does_not_stop_is_killed(process: type[Process], hangs: bool, calls: list[str]) -> None:
    process.hangs = hangs
    with started_apiserver():
        pass
    assert process.calls == calls


def test_server_that_exits_is_an_error_with_its_output(process: type[Process]) -> None:
    process.code = 2
    with pytest.raises(ApiServerFailed, match="exit code 2: output"), started_apiserver():
        pass


@pytest.mark.parametrize(
    ("options", "added"),
    [
        ([], ["--free-port", "--authorization-mode=Node,RBAC"]),
        (["--secure-port=1"], ["--authorization-mode=Node,RBAC"]),
        (["--authorization-mode=RBAC"], ["--free-port"]),
        (["--authorization-config=f"], ["--free-port"]),
    ],
)
def test_options_replace_the_usual_ones(options: list[str], added: list[str]) -> None:
    assert usual_options(Path("d"), *options) == ["--data-dir=d", "--bind-address=127.0.0.1", *added, *options]
