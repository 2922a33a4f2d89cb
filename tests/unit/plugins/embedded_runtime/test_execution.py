"""Tests for commands in containers: their settings, their output and their failures."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import CallError, DeadlineExceeded, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.execution import (
    MAX_OUTPUT_BYTES,
    ExecOutcome,
    Execution,
    Prepared,
    _collect,
    _Collected,
)
from nodeagent_plugins.embedded_runtime.records import Container, Records
from nodeagent_plugins.embedded_runtime.streams import _size


class Endless:
    """Output that is longer than any limit."""

    def __init__(self) -> None:
        self.left = 4 * MAX_OUTPUT_BYTES

    async def read(self, size: int) -> bytes:
        data = b"x" * min(size, self.left)
        self.left -= len(data)
        return data


async def test_output_beyond_the_limit_is_dropped() -> None:
    collected, stream = _Collected(), Endless()

    await _collect(stream, collected)  # type: ignore[arg-type]

    assert len(collected.data) == MAX_OUTPUT_BYTES // 2
    assert stream.left == 0  # The command is never blocked by a full pipe.


@pytest.fixture
def execution(tmp_path: Path) -> Execution:
    """Execution with a running container, whose process has an environment."""
    records: Records[Container] = Records(tmp_path / "containers", Container, cri.ContainerConfig)
    for name, started_at in (("c", 1), ("created", 0)):
        records.save(Container(name, "s", cri.ContainerConfig(), "image", "ref", 1, started_at=started_at))
    spec = {"process": {"args": ["main"], "cwd": "/", "env": ["A=1"]}}
    (records.directory("c") / "config.json").write_bytes(msgspec.json.encode(spec))
    runner = SimpleNamespace(execute=lambda container_id, file: ["exec", container_id, str(file)])
    containers: Any = SimpleNamespace(records=records, runner=runner)
    return Execution(containers)


def container(execution: Execution, name: str = "c") -> Container:
    return execution._containers.records.get(name)


def test_command_runs_with_the_process_settings_of_the_container(execution: Execution) -> None:
    for terminal, env in [(False, ["A=1"]), (True, ["A=1", "TERM=xterm"])]:
        with execution.prepared(container(execution), ["ls", "-l"], terminal=terminal) as prepared:
            process = msgspec.json.decode(prepared.file.read_bytes())
            assert process == {"args": ["ls", "-l"], "cwd": "/", "env": env, "terminal": terminal}
            assert prepared.words == ["exec", "c", str(prepared.file)]
            assert prepared.file.stat().st_mode & 0o777 == 0o600
        assert not prepared.file.exists()
    spec = {"process": {"env": ["TERM=vt100"]}}
    file = execution._containers.records.directory("c") / "config.json"
    file.write_bytes(msgspec.json.encode(spec))
    with execution.prepared(container(execution), ["ls"], terminal=True) as prepared:
        assert msgspec.json.decode(prepared.file.read_bytes())["env"] == ["TERM=vt100"]


def test_command_requires_a_running_container(execution: Execution) -> None:
    for name, command, error in [("c", [], InvalidArgument), ("created", ["ls"], FailedPrecondition)]:
        with pytest.raises(error), execution.prepared(container(execution, name), command, terminal=False):
            pass


def test_failure_is_the_error_of_the_runner_unless_the_command_started(tmp_path: Path) -> None:
    prepared = Prepared([], tmp_path / "exec.json")
    log, pid = tmp_path / "exec.json.log", tmp_path / "exec.json.pid"
    assert prepared.failure() is None
    for text, failure in [
        ("", None),
        ("no JSON\n", None),
        ('{"level":"info","msg":"x"}\n', None),
        ('no JSON\n{"level":"info","msg":"x"}\n{"level":"error","msg":"not found"}\n', "not found"),
    ]:
        log.write_text(text)
        assert prepared.failure() == failure, text
    pid.write_text("1")
    assert prepared.failure() is None
    prepared.clean_up()
    assert list(tmp_path.iterdir()) == []


def test_size_of_a_terminal_is_limited() -> None:
    for data, expected in [
        (b'{"Height":50,"Width":120}', (50, 120)),
        (b'{"Height":0,"Width":-1}', (1, 1)),
        (b'{"Height":70000,"Width":65535}', (65535, 65535)),
        (b'{"Height":50}', (24, 80)),
        (b'{"Height":"x","Width":1}', (24, 80)),
        (b"", (24, 80)),
    ]:
        assert _size(data) == expected, data


class Runner:
    """Runs the script *text* instead of a command in a container; ``$1`` is the file of the process."""

    def __init__(self, text: str) -> None:
        self.text = text

    def execute(self, _container_id: str, file: Path) -> list[str]:
        return ["/bin/sh", "-c", self.text, "sh", str(file)]


async def execute(execution: Execution, script: str, timeout_seconds: float = 0) -> ExecOutcome:
    containers: Any = execution._containers
    containers.runner = Runner(script)
    return await execution.run(container(execution), ["ls"], timeout_seconds)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo out; echo err >&2", ExecOutcome(0, b"out\n", b"err\n")),
        ("exit 3", ExecOutcome(3, b"", b"")),
        ("kill -TERM $$", ExecOutcome(143, b"", b"")),
    ],
)
async def test_outcome_is_exit_code_and_output(execution: Execution, script: str, expected: ExecOutcome) -> None:
    assert await execute(execution, script) == expected


async def test_command_that_cannot_be_started_is_an_error(execution: Execution) -> None:
    message = '{"level": "error", "msg": "no such file"}'

    with pytest.raises(CallError, match="run ls: no such file"):
        await execute(execution, f"echo '{message}' > $1.log; exit 1")


@pytest.mark.parametrize("recorded", [True, False])
async def test_command_that_times_out_is_killed(
    execution: Execution, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    monkeypatch.setattr("nodeagent_plugins.embedded_runtime.execution.NOTE_SECONDS", 10.0 if recorded else 0.01)
    with subprocess.Popen(["sleep", "60"]) as command:
        try:
            note = f"echo {command.pid} > $1.pid; " if recorded else ""
            with pytest.raises(DeadlineExceeded, match=r"command ls timed out after 0\.01 s"):
                await execute(execution, f"{note}exec sleep 60", timeout_seconds=0.01)
            if recorded:
                assert command.wait(5) == -signal.SIGKILL
        finally:
            command.kill()
