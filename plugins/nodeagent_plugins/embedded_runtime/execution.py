"""Commands that are executed in running containers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import field

from nodeagent.base.structs import MutableStruct, Struct
from nodeagent_plugins.embedded_runtime.containers import Containers
from nodeagent_plugins.embedded_runtime.errors import CallError, DeadlineExceeded, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Container, new_id

MAX_OUTPUT_BYTES = 16 * 1024 * 1024 - 64 * 1024
"""Maximum size of stdout and stderr in a response; the remainder is dropped."""
DRAIN_SECONDS = 2.0
NOTE_SECONDS = 2.0


class ExecOutcome(Struct, frozen=True):
    """Result of a command."""

    exit_code: int
    output: bytes
    errors: bytes


class Execution:
    """Executes commands in containers."""

    def __init__(self, containers: Containers) -> None:
        self._containers = containers

    async def run(self, container: Container, command: Sequence[str], timeout_seconds: float) -> ExecOutcome:
        """Run *command* to completion.

        :param timeout_seconds: timeout after which the command is killed; 0 disables it.
        :raises FailedPrecondition: the container is not running.
        :raises DeadlineExceeded: the command timed out.
        """
        with self.prepared(container, command, terminal=False) as prepared:
            runner = await asyncio.create_subprocess_exec(
                *prepared.words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
            output, errors = _Collected(), _Collected()
            readers = [
                asyncio.create_task(_collect(stream, into), name="read a command's output")
                for stream, into in ((runner.stdout, output), (runner.stderr, errors))
            ]
            try:
                async with asyncio.timeout(timeout_seconds or None):
                    code = await runner.wait()
                    # Child processes of the command may keep its output open.
                    await asyncio.wait(readers, timeout=DRAIN_SECONDS)
            except TimeoutError as error:
                raise DeadlineExceeded(f"command {command[0]} timed out after {timeout_seconds:g} s") from error
            finally:
                await asyncio.shield(self._end(runner, prepared, readers))
            if (failure := prepared.failure()) is not None:
                raise CallError(f"run {command[0]}: {failure}")
        return ExecOutcome(code if code >= 0 else 128 - code, bytes(output.data), bytes(errors.data))

    async def _end(
        self, runner: asyncio.subprocess.Process, prepared: Prepared, readers: list[asyncio.Task[None]]
    ) -> None:
        """Kill a running command, inside and outside of the container."""
        await prepared.end(runner)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

    @contextmanager
    def prepared(self, container: Container, command: Sequence[str], *, terminal: bool) -> Iterator[Prepared]:
        """Yield the command line that runs *command* in *container*."""
        if not command:
            raise InvalidArgument("missing command")
        if not container.running:
            raise FailedPrecondition(f"container {container.id} is not running")
        directory = self._containers.records.directory(container.id)
        # Two small files in memory (tmpfs or page cache): faster than a thread.
        spec = (directory / "config.json").read_bytes()  # nodeagent: ignore[blocking-call]
        process = msgspec.json.decode(spec, type=dict[str, Any])["process"] | {
            "args": list(command),
            "terminal": terminal,
        }
        if terminal and not any(entry.startswith("TERM=") for entry in process["env"]):
            process["env"] = [*process["env"], "TERM=xterm"]
        file = directory / f"exec-{new_id()[:16]}.json"
        file.touch(mode=0o600)  # nodeagent: ignore[blocking-call]
        file.write_bytes(msgspec.json.encode(process))  # nodeagent: ignore[blocking-call]
        prepared = Prepared(self._containers.runner.execute(container.id, file), file)
        try:
            yield prepared
        finally:
            prepared.clean_up()


class Prepared(Struct, frozen=True):
    """A command that is about to run, or running."""

    words: list[str]
    file: Path

    async def end(self, runner: asyncio.subprocess.Process) -> None:
        """Kill the process in the container and its *runner*, and wait for the runner.

        The runner may not have recorded the process yet; this waits for it for a limited time.
        """
        if runner.returncode is None:
            with suppress(TimeoutError):
                async with asyncio.timeout(NOTE_SECONDS):
                    while (process := self._process()) is None and runner.returncode is None:  # noqa: ASYNC110 - polls a file
                        await asyncio.sleep(0.01)
                    if process is not None:
                        process.send(signal.SIGKILL)
            with suppress(ProcessLookupError):
                runner.kill()
            await runner.wait()

    def _process(self) -> Process | None:
        try:
            # A few bytes in memory, read for at most NOTE_SECONDS: faster than a thread.
            return Process.of(int(self._beside("pid").read_text()))  # nodeagent: ignore[blocking-call]
        except (OSError, ValueError):
            return None

    def failure(self) -> str | None:
        """Return why the command failed to start; ``None`` if it started."""
        try:
            lines = self._beside("log").read_text(errors="replace").splitlines()
        except OSError:
            return None
        for line in lines:
            with suppress(ValueError, RecursionError):
                entry = msgspec.json.decode(line, type=dict[str, Any])
                if entry.get("level") == "error" and not self._beside("pid").exists():
                    return str(entry.get("msg"))
        return None

    def clean_up(self) -> None:
        for path in (self.file, self._beside("log"), self._beside("pid")):
            path.unlink(missing_ok=True)

    def _beside(self, suffix: str) -> Path:
        return Path(f"{self.file}.{suffix}")


class _Collected(MutableStruct):
    data: bytearray = field(default_factory=bytearray)


async def _collect(stream: asyncio.StreamReader | None, into: _Collected) -> None:
    """Read *stream* to its end, and keep at most half the maximum response size."""
    assert stream is not None
    while data := await stream.read(64 * 1024):
        into.data += data[: MAX_OUTPUT_BYTES // 2 - len(into.data)]
