"""Processes that servers call in tests, controlled by lines on their standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Command = Callable[[str], Awaitable[None]]
_SECONDS = 30


@asynccontextmanager
async def helper_process(module: str, *arguments: str) -> AsyncIterator[Command]:
    """Run *module* and yield once it is ready; sends it commands, each of which it acknowledges with a line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    incoming, outgoing = process.stdout, process.stdin

    async def acknowledged() -> None:
        assert await asyncio.wait_for(incoming.readline(), _SECONDS) == b"ok\n"

    async def command(text: str) -> None:
        outgoing.write(f"{text}\n".encode())
        await acknowledged()

    try:
        await acknowledged()
        yield command
    finally:
        outgoing.close()  # The process exits at the end of its input.
        try:
            await asyncio.wait_for(process.wait(), _SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def run_commands(commands: dict[str, Callable[[], object]]) -> None:
    """Report that the process is ready, and run the named commands until the end of the input."""
    print("ok", flush=True)
    for line in sys.stdin:
        commands[line.strip()]()
        print("ok", flush=True)
