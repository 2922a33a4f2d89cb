"""Running a program that nobody trusts: within limits of time and output, in a process group of its own, no shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

_CHUNK = 65536
_REAP_SECONDS = 5.0
_DRAIN_SECONDS = 1.0
"""How long the pipes of a program that has ended are read while its children hold them open."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may use."""

    seconds: float = 60.0
    output_bytes: int = 1 << 20
    error_bytes: int = 4096
    """How much of the end of standard error is kept; more may be written."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run, exactly."""

    path: str
    arguments: tuple[str, ...]
    """Without the program's name."""
    environment: Mapping[str, str]
    may_leave_children: bool = False
    """Whether what it leaves running may live on once it ended well in time, such as the daemon of a file system."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    """Exit code, or minus the number of the signal that ended it."""
    output: bytes | None
    """``None``: it wrote more than it may and was killed."""
    errors: bytes = b""
    """The end of what it wrote to standard error."""


async def run_program(program: Program, request: bytes, limits: Limits) -> Finished:
    """Run *program* with *request* as its standard input, at most a page of memory long, and wait for its end.

    Whatever is left of its process group then is killed, unless it may leave children; so it is when time is up, or the
    caller is cancelled.

    :raises TimeoutError: it took longer than it may.
    :raises OSError: it cannot be started.
    """
    process = await _start(program, request)
    exited = asyncio.Event()
    with _watch(process, exited):
        try:
            async with asyncio.timeout(limits.seconds):
                return await _finish(process, exited, limits, program.may_leave_children)
        finally:
            _kill_group(process)
            with contextlib.suppress(TimeoutError):  # one that the kernel holds is left to the kernel
                async with asyncio.timeout(_REAP_SECONDS):
                    await exited.wait()
            process.poll()


async def _finish(
    process: subprocess.Popen[bytes], exited: asyncio.Event, limits: Limits, may_leave_children: bool
) -> Finished:
    assert process.stdout is not None and process.stderr is not None
    async with (
        _open(process.stdout) as (stdout, close_stdout),
        _open(process.stderr) as (stderr, close_stderr),
        asyncio.TaskGroup() as group,
    ):
        output = group.create_task(_read_at_most(stdout, limits.output_bytes, process))
        errors = group.create_task(_read_end(stderr, limits.error_bytes))
        await exited.wait()
        # Children that it left may hold the pipes open.
        if may_leave_children:
            process.wait()
            await asyncio.wait({output, errors}, timeout=_DRAIN_SECONDS)
            close_stdout()
            close_stderr()
        else:
            _kill_group(process)
    return Finished(process.wait(), output.result(), errors.result())


async def _start(program: Program, request: bytes) -> subprocess.Popen[bytes]:
    starting = asyncio.ensure_future(asyncio.to_thread(_spawn, program, request))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_abandon)
        raise


def _spawn(program: Program, request: bytes) -> subprocess.Popen[bytes]:
    # Not asyncio's own way: under uvloop that hands a script without interpreter line to /bin/sh.
    process = subprocess.Popen(
        [program.path, *program.arguments],
        env=program.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin, contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)  # fits the pipe, so it never waits for the reader
    return process


def _abandon(starting: asyncio.Task[subprocess.Popen[bytes]]) -> None:
    if starting.cancelled() or starting.exception() is not None:
        return
    with starting.result() as process:  # closes its pipes and reaps it
        _kill_group(process)


@contextlib.contextmanager
def _watch(process: subprocess.Popen[bytes], exited: asyncio.Event) -> Iterator[None]:
    """Set *exited* once the process has ended; it stays a zombie until it is waited for."""
    loop = asyncio.get_running_loop()
    descriptor = os.pidfd_open(process.pid)

    def note() -> None:
        loop.remove_reader(descriptor)
        exited.set()

    loop.add_reader(descriptor, note)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and its children; as long as it is not reaped, its id cannot mean another one."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@contextlib.asynccontextmanager
async def _open(pipe: IO[bytes]) -> AsyncIterator[tuple[asyncio.StreamReader, Callable[[], None]]]:
    """Read a pipe to its end, or until the second of what is given is called: the end of what was read so far."""
    reader = asyncio.StreamReader(limit=_CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader, transport.close
    finally:
        transport.close()


async def _read_at_most(reader: asyncio.StreamReader, limit: int, process: subprocess.Popen[bytes]) -> bytes | None:
    """Return everything, or kill the process and return ``None`` when it is more than *limit*."""
    read = bytearray()
    while chunk := await reader.read(_CHUNK):
        read += chunk
        if len(read) > limit:
            _kill_group(process)
            return None
    return bytes(read)


async def _read_end(reader: asyncio.StreamReader, kept: int) -> bytes:
    read = b""
    while chunk := await reader.read(_CHUNK):
        read = (read + chunk)[-kept:]
    return read
