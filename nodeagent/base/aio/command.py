"""Execution of untrusted commands: limited time and output, a separate process group, no shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import IO

from nodeagent.base.structs import Struct

_CHUNK = 65536
_REAP_SECONDS = 5.0
_DRAIN_SECONDS = 1.0
"""Time to read the pipes of a command that has exited while its children keep them open."""


class Limits(Struct, frozen=True):
    """Resource limits of a command."""

    seconds: float = 60.0
    output_bytes: int = 1 << 20
    error_bytes: int = 4096
    """Size of the end of standard error that is retained; the command may write more."""


class Command(Struct, frozen=True):
    """Command line and environment of an executable."""

    path: str
    arguments: tuple[str, ...]
    """Without the name of the executable."""
    environment: Mapping[str, str]
    may_leave_children: bool = False
    """Child processes may keep running after it exits in time, such as the daemon of a file system."""


class CommandResult(Struct, frozen=True):
    """Exit code and output of a command."""

    code: int
    """Exit code, or the negative number of the signal that terminated it."""
    output: bytes | None
    """``None`` if it exceeded the limit and was killed."""
    errors: bytes = b""
    """The end of its standard error."""


async def run_command(command: Command, request: bytes, limits: Limits) -> CommandResult:
    """Run *command* with *request* as its standard input, at most one memory page, and wait for its exit.

    Remaining processes of its process group are then killed, unless it may leave children; they are also killed on
    timeout and when the calling task is cancelled.

    :raises TimeoutError: it exceeded its time limit.
    :raises OSError: it could not be started.
    """
    process = await _start(command, request)
    exited = asyncio.Event()
    with _watch(process, exited):
        try:
            async with asyncio.timeout(limits.seconds):
                return await _finish(process, exited, limits, command.may_leave_children)
        finally:
            _kill_group(process)
            with contextlib.suppress(TimeoutError):  # Blocked in the kernel: it exits once the kernel lets it.
                async with asyncio.timeout(_REAP_SECONDS):
                    await exited.wait()
            process.poll()


async def _finish(
    process: subprocess.Popen[bytes], exited: asyncio.Event, limits: Limits, may_leave_children: bool
) -> CommandResult:
    assert process.stdout is not None and process.stderr is not None
    async with (
        _open(process.stdout) as (stdout, close_stdout),
        _open(process.stderr) as (stderr, close_stderr),
        asyncio.TaskGroup() as group,
    ):
        output = group.create_task(_read_at_most(stdout, limits.output_bytes, process))
        errors = group.create_task(_read_end(stderr, limits.error_bytes))
        await exited.wait()
        # Its children may keep the pipes open.
        if may_leave_children:
            process.wait()
            await asyncio.wait({output, errors}, timeout=_DRAIN_SECONDS)
            close_stdout()
            close_stderr()
        else:
            _kill_group(process)
    return CommandResult(process.wait(), output.result(), errors.result())


async def _start(command: Command, request: bytes) -> subprocess.Popen[bytes]:
    starting = asyncio.ensure_future(asyncio.to_thread(_spawn, command, request))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_abandon)
        raise


def _spawn(command: Command, request: bytes) -> subprocess.Popen[bytes]:
    # Not asyncio's subprocesses: under uvloop they pass a script without an interpreter line to /bin/sh.
    process = subprocess.Popen(
        [command.path, *command.arguments],
        env=command.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin, contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)  # Fits in the pipe, so it never blocks.
    return process


def _abandon(starting: asyncio.Task[subprocess.Popen[bytes]]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    with starting.result() as process:  # Closes its pipes and reaps it.
        _kill_group(process)


@contextlib.contextmanager
def _watch(process: subprocess.Popen[bytes], exited: asyncio.Event) -> Iterator[None]:
    """Set *exited* when the process exits; it stays a zombie until it is waited for."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)

    def process_exited() -> None:
        loop.remove_reader(descriptor)
        exited.set()

    loop.add_reader(descriptor, process_exited)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children; until it is reaped, its process id cannot be reused."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def _open(pipe: IO[bytes]) -> AsyncIterator[tuple[asyncio.StreamReader, Callable[[], None]]]:
    """Yield a reader of *pipe* and a function that ends it early, after the data received so far."""
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader, transport.close
    finally:
        transport.close()


async def _read_at_most(reader: asyncio.StreamReader, limit: int, process: subprocess.Popen[bytes]) -> bytes | None:
    """Return the complete output; if it exceeds *limit*, kill the process and return ``None``."""
    read = bytearray()
    while chunk := await reader.read(_CHUNK):
        read += chunk
        if len(read) > limit:
            _kill_group(process)
            return None
    return bytes(read)


async def _read_end(reader: asyncio.StreamReader, limit: int) -> bytes:
    read = b""
    while chunk := await reader.read(_CHUNK):
        read = (read + chunk)[-limit:]
    return read
