"""Tests for the command line of ``nodeagent-runtime``: options, exit codes, imports and daemon processes."""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
import uvloop

from nodeagent.base import malloc
from nodeagent.base.cdi.names import DEFAULT_DIRECTORIES
from nodeagent_plugins.embedded_runtime import __main__ as command
from nodeagent_plugins.embedded_runtime import daemon, server, userns


class Runtime:
    """Replaced parts of the process: its daemon, its user namespace and its event loop."""

    def __init__(self) -> None:
        self.empty = True
        self.options: daemon.Options | None = None
        self.namespace_error: OSError | None = None
        self.daemon_error: Exception | None = None
        self.released: list[Path] = []

    def make(self, options: daemon.Options) -> Runtime:
        if self.daemon_error is not None:
            raise self.daemon_error
        self.options = options
        return self

    def become_root(self, _root: Path) -> None:
        if self.namespace_error is not None:
            raise self.namespace_error

    def run(self, serving: Coroutine[Any, Any, None]) -> None:
        serving.close()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    runtime = Runtime()
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
    monkeypatch.setattr(daemon, "Daemon", runtime.make)
    monkeypatch.setattr(userns, "become_root", runtime.become_root)
    monkeypatch.setattr(userns, "release", runtime.released.append)
    monkeypatch.setattr(malloc, "trim_eagerly", lambda: None)
    monkeypatch.setattr(uvloop, "run", runtime.run)
    return runtime


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["nodeagent-runtime", *words])
    return command.main()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--root", "/r", "--listen", "tcp://h:1"], "--listen must be a Unix socket, unix:///path"),
        (["--listen", "unix:///s"], "--root is required"),
    ],
)
def test_invalid_option_is_reported(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    with pytest.raises(SystemExit) as raised:
        run(monkeypatch, *words)

    assert raised.value.code == 2 and text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "directories"),
    [([], DEFAULT_DIRECTORIES), (["--cdi-spec-dir", "/a", "--cdi-spec-dir", "/b"], ["/a", "/b"])],
)
def test_options_are_passed_to_the_daemon(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], directories: list[str]
) -> None:
    assert run(monkeypatch, "--root", str(tmp_path / "r"), "--listen", "unix:///s", *words) == 0

    assert runtime.options is not None
    assert (runtime.options.root, runtime.options.socket) == (tmp_path / "r", Path("/s"))
    assert list(runtime.options.cdi_directories) == list(directories)


@pytest.mark.parametrize("empty", [True, False])
def test_user_namespace_is_released_if_there_are_no_pods(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, empty: bool
) -> None:
    runtime.empty = empty

    assert run(monkeypatch, "--root", str(tmp_path), "--listen", "unix:///s") == 0

    assert runtime.released == ([tmp_path] if empty else [])


@pytest.mark.parametrize(
    "error", [{"namespace_error": OSError("no namespaces")}, {"daemon_error": ValueError("no namespaces")}]
)
def test_runtime_that_cannot_start_exits_with_2(
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: dict[str, Exception],
) -> None:
    vars(runtime).update(error)

    assert run(monkeypatch, "--root", str(tmp_path), "--listen", "unix:///s") == 2
    assert capsys.readouterr().err == "embedded runtime: no namespaces\n"


class Rejected(grpc.RpcError):
    """Error of a call."""

    def details(self) -> str:
        return "not an archive"


@pytest.mark.parametrize(("error", "code"), [(None, 0), (Rejected(), 1)])
def test_imported_names_are_printed(
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception | None,
    code: int,
) -> None:
    def request_import(endpoint: str, archive: Path) -> list[str]:
        if error is not None:
            raise error
        return [endpoint, str(archive)]

    monkeypatch.setattr(server, "request_import", request_import)

    assert run(monkeypatch, "--listen", "unix:///s", "--import", "/a.tar") == code
    output = capsys.readouterr()
    assert output.out == ("" if error else "unix:///s\n/a.tar\n")
    assert output.err == ("embedded runtime: not an archive\n" if error else "")


@pytest.mark.parametrize(("response", "code", "log"), [(b"ok", 0, ""), (b"", 2, "no nft")])
def test_parent_process_exits_once_the_daemon_serves(
    runtime: Runtime,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    response: bytes,
    code: int,
    log: str,
) -> None:
    pipes: list[tuple[int, int]] = []
    (tmp_path / "runtime.log").write_text("no nft")

    def pipe() -> tuple[int, int]:
        pipes.append(os.pipe())
        return pipes[-1]

    def fork() -> int:
        os.write(pipes[-1][1], response)
        return 7

    def leave(status: int) -> None:
        raise SystemExit(status)

    names = {**vars(os), "pipe": pipe, "fork": fork, "_exit": leave}
    monkeypatch.setattr(command, "os", SimpleNamespace(**names))

    with pytest.raises(SystemExit) as raised:
        run(monkeypatch, "--root", str(tmp_path), "--listen", "unix:///s", "--detach")

    assert raised.value.code == code
    assert capsys.readouterr().err.strip() == log
