"""Tests for the execution of commands on both event loops: limits, exit codes, removal of processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from tests.integration.programs import wait_until

Loop = Callable[[Coroutine[Any, Any, Any]], Any]
LONG = Limits(seconds=30)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> Loop:
    return request.param


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Command]:
    def write(body: str, *arguments: str, first_line: str = "#!/bin/sh\n", **environment: str) -> Command:
        file = tmp_path / "program"
        file.write_text(first_line + body)
        file.chmod(0o755)
        return Command(str(file), arguments, {"PATH": os.environ["PATH"], "DIR": str(tmp_path), **environment})

    return write


def exited(pid_file: Path) -> bool:
    """Return whether the process in *pid_file* has exited, reaped or not; true if it did not write its ID."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if pid := pid_file.read_text().strip():
            stat = Path(f"/proc/{pid}/stat").read_text()
            return stat.rpartition(")")[2].split()[0] == "Z"
    return True


def test_result_has_output_errors_and_exit_code(loop: Loop, command: Any) -> None:
    created = command('cat; echo "$1|$WORD" >&2; exit 3', "a b; exit 9", WORD="x")

    assert loop(run_command(created, b'{"a":1}', LONG)) == CommandResult(3, b'{"a":1}', b"a b; exit 9|x\n")


def test_command_may_ignore_its_input(loop: Loop, command: Any) -> None:
    assert loop(run_command(command("exec <&-; echo done"), b"{}", LONG)) == CommandResult(0, b"done\n")


def test_command_over_its_time_limit_is_killed_with_its_children(loop: Loop, command: Any, tmp_path: Path) -> None:
    created = command('trap "" TERM INT; echo $$ > "$DIR/parent"; sleep 1000 & echo $! > "$DIR/child"; wait')

    with pytest.raises(TimeoutError):
        loop(run_command(created, b"", Limits(seconds=1)))

    wait_until(lambda: exited(tmp_path / "parent") and exited(tmp_path / "child"), "both are gone")


def test_hanging_command_with_closed_output_is_killed(loop: Loop, command: Any) -> None:
    with pytest.raises(TimeoutError):
        loop(run_command(command("exec >&- 2>&-; sleep 1000"), b"", Limits(seconds=1)))


def test_command_over_its_output_limit_is_killed(loop: Loop, command: Any) -> None:
    created = command("exec head -c 1000000000 /dev/zero")

    assert loop(run_command(created, b"", LONG)) == CommandResult(-9, None)


def test_end_of_standard_error_is_retained(loop: Loop, command: Any) -> None:
    created = command("head -c 20000000 /dev/zero >&2; printf end >&2; echo fine")

    finished = loop(run_command(created, b"", Limits(seconds=30, error_bytes=10)))

    assert finished == CommandResult(0, b"fine\n", b"\0\0\0\0\0\0\0end")


def test_remaining_children_are_killed(loop: Loop, command: Any, tmp_path: Path) -> None:
    created = command('sleep 1000 & echo $! > "$DIR/child"; echo done')

    assert loop(run_command(created, b"", LONG)).output == b"done\n"
    wait_until(lambda: exited(tmp_path / "child"), "the child is gone")


def test_permitted_children_keep_running_with_open_pipes(loop: Loop, command: Any, tmp_path: Path) -> None:
    created = command('sleep 1000 & echo $! > "$DIR/child"; echo done; echo why >&2')

    try:
        finished = loop(run_command(replace(created, may_leave_children=True), b"", LONG))

        assert finished == CommandResult(0, b"done\n", b"why\n")
        assert not exited(tmp_path / "child")
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_crash_is_reported_as_its_signal(loop: Loop, command: Any) -> None:
    assert loop(run_command(command("kill -SEGV $$"), b"", LONG)) == CommandResult(-11, b"")


def test_script_without_interpreter_is_not_passed_to_a_shell(loop: Loop, command: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Exec format error"):
        loop(run_command(command('echo run > "$DIR/trace"', first_line=""), b"", LONG))

    assert not (tmp_path / "trace").exists()


def test_cancellation_kills_the_command(loop: Loop, command: Any, tmp_path: Path) -> None:
    created = command('echo $$ > "$DIR/parent"; mv "$DIR/parent" "$DIR/running"; exec sleep 1000')

    async def cancel() -> None:
        running = asyncio.ensure_future(run_command(created, b"", LONG))
        while not (tmp_path / "running").exists():
            await asyncio.sleep(0.01)
        (tmp_path / "running").rename(tmp_path / "first")
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        early = asyncio.ensure_future(run_command(created, b"", LONG))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await early
        while len(asyncio.all_tasks()) > 1:  # The thread that starts it.
            await asyncio.sleep(0.01)

    loop(cancel())

    for name in ("first", "parent", "running"):  # The second command is killed at any step.
        wait_until(lambda name=name: exited(tmp_path / name), f"the program {name} is gone")
