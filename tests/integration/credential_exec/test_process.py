"""A program gets its time, its output and no more, on either event loop; nothing of it is left afterwards."""

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
def program(tmp_path: Path) -> Callable[..., Command]:
    def write(body: str, *arguments: str, first_line: str = "#!/bin/sh\n", **environment: str) -> Command:
        file = tmp_path / "program"
        file.write_text(first_line + body)
        file.chmod(0o755)
        return Command(str(file), arguments, {"PATH": os.environ["PATH"], "DIR": str(tmp_path), **environment})

    return write


def gone(pid_file: Path) -> bool:
    """Tell whether the process named in the file has ended, reaped or not."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        stat = Path(f"/proc/{pid_file.read_text().strip()}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "Z"
    return True


def test_gets_the_request_and_gives_output_errors_and_exit_code(loop: Loop, program: Any) -> None:
    made = program('cat; echo "$1|$WORD" >&2; exit 3', "a b; exit 9", WORD="x")

    assert loop(run_command(made, b'{"a":1}', LONG)) == CommandResult(3, b'{"a":1}', b"a b; exit 9|x\n")


def test_one_that_does_not_read_is_fine(loop: Loop, program: Any) -> None:
    assert loop(run_command(program("exec <&-; echo done"), b"{}", LONG)) == CommandResult(0, b"done\n")


def test_one_that_hangs_is_killed_with_its_children(loop: Loop, program: Any, tmp_path: Path) -> None:
    made = program('trap "" TERM INT; echo $$ > "$DIR/parent"; sleep 1000 & echo $! > "$DIR/child"; wait')

    with pytest.raises(TimeoutError):
        loop(run_command(made, b"", Limits(seconds=1)))

    wait_until(lambda: gone(tmp_path / "parent") and gone(tmp_path / "child"), "both are gone")


def test_one_that_closed_its_output_and_hangs_is_killed(loop: Loop, program: Any) -> None:
    with pytest.raises(TimeoutError):
        loop(run_command(program("exec >&- 2>&-; sleep 1000"), b"", Limits(seconds=1)))


def test_a_gigabyte_ends_it_early(loop: Loop, program: Any) -> None:
    made = program("exec head -c 1000000000 /dev/zero")

    assert loop(run_command(made, b"", LONG)) == CommandResult(-9, None)


def test_of_endless_errors_the_end_is_kept(loop: Loop, program: Any) -> None:
    made = program("head -c 20000000 /dev/zero >&2; printf end >&2; echo fine")

    finished = loop(run_command(made, b"", Limits(seconds=30, error_bytes=10)))

    assert finished == CommandResult(0, b"fine\n", b"\0\0\0\0\0\0\0end")


def test_children_that_it_leaves_behind_are_killed(loop: Loop, program: Any, tmp_path: Path) -> None:
    made = program('sleep 1000 & echo $! > "$DIR/child"; echo done')

    assert loop(run_command(made, b"", LONG)).output == b"done\n"
    wait_until(lambda: gone(tmp_path / "child"), "the child is gone")


def test_children_that_may_stay_live_on_with_the_pipes_open(loop: Loop, program: Any, tmp_path: Path) -> None:
    made = program('sleep 1000 & echo $! > "$DIR/child"; echo done; echo why >&2')

    try:
        finished = loop(run_command(replace(made, may_leave_children=True), b"", LONG))

        assert finished == CommandResult(0, b"done\n", b"why\n")
        assert not gone(tmp_path / "child")
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_a_crash_is_told_by_its_signal(loop: Loop, program: Any) -> None:
    assert loop(run_command(program("kill -SEGV $$"), b"", LONG)) == CommandResult(-11, b"")


def test_a_script_without_interpreter_is_never_given_to_a_shell(loop: Loop, program: Any, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="Exec format error"):
        loop(run_command(program('echo run > "$DIR/trace"', first_line=""), b"", LONG))

    assert not (tmp_path / "trace").exists()


def test_cancelling_kills_it(loop: Loop, program: Any, tmp_path: Path) -> None:
    made = program('echo $$ > "$DIR/parent"; exec sleep 1000')

    async def cancel() -> None:
        running = asyncio.ensure_future(run_command(made, b"", LONG))
        while not (tmp_path / "parent").exists():
            await asyncio.sleep(0.01)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        early = asyncio.ensure_future(run_command(made, b"", LONG))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        early.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await early
        while len(asyncio.all_tasks()) > 1:  # the thread that starts it
            await asyncio.sleep(0.01)

    loop(cancel())

    wait_until(lambda: gone(tmp_path / "parent"), "the program is gone")
