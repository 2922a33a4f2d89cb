"""Tests for the execution of untrusted commands: output, limits, child processes and cancellation."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from nodeagent.base.aio.command import Command, CommandResult, Limits, run_command
from nodeagent.testing.clock import eventually


def shell(script: str, *, may_leave_children: bool = False) -> Command:
    return Command("/bin/sh", ("-c", script), {"A": "1"}, may_leave_children)


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("cat; echo $A", CommandResult(0, b"request1\n")),
        ("echo no >&2; exit 3", CommandResult(3, b"", b"no\n")),
        ("kill -9 $$", CommandResult(-signal.SIGKILL, b"")),
    ],
)
async def test_command_receives_the_request_and_its_environment(script: str, result: CommandResult) -> None:
    assert await run_command(shell(script), b"request", Limits()) == result


@pytest.mark.parametrize(("size", "complete"), [(10, True), (11, False)])
async def test_command_with_too_much_output_is_killed(size: int, complete: bool) -> None:
    result = await run_command(shell(f"printf '%{size}s'; exec cat"), b"", Limits(output_bytes=10))

    assert result.output == (b" " * size if complete else None)


async def test_end_of_the_errors_is_retained() -> None:
    result = await run_command(shell("printf 123456789 >&2"), b"", Limits(error_bytes=4))

    assert result.errors == b"6789"


@pytest.mark.parametrize("leaves", [True, False])
async def test_children_keep_running_only_if_they_may_be_left(leaves: bool) -> None:
    command = shell("sleep 30 > /dev/null 2>&1 & echo $!", may_leave_children=leaves)

    result = await run_command(command, b"", Limits())

    assert result.output is not None
    child = int(result.output)
    if leaves:
        assert is_running(child)
        os.kill(child, signal.SIGKILL)
    else:
        await eventually(lambda: not is_running(child))


def is_running(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


async def test_command_that_takes_too_long_is_killed() -> None:
    with pytest.raises(TimeoutError):
        await run_command(shell("exec sleep 30"), b"", Limits(seconds=0.05))


async def test_cancelled_command_is_killed(tmp_path: Path) -> None:
    task = asyncio.create_task(run_command(shell(f"echo $$ > {tmp_path}/pid; exec sleep 30"), b"", Limits()))
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        await asyncio.sleep(0.005)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    entry = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    async with asyncio.timeout(30):
        while entry.exists():  # A command that is just being started is killed after the task has ended.
            await asyncio.sleep(0.005)


async def test_missing_executable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_command(Command(str(tmp_path / "none"), (), {}), b"", Limits())
