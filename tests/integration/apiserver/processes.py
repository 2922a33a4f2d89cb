"""Processes that servers call in tests, controlled by lines on their standard input."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import grpc

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


@contextmanager
def grpc_service(
    address: str, name: str, methods: Mapping[str, tuple[Callable[[Any, Any], Any], Any]]
) -> Iterator[None]:
    """Serve the gRPC service *name*: its methods with the types of their requests."""
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            run,
            request_deserializer=kind.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for method, (run, kind) in methods.items()
    }
    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
        server.add_insecure_port(address)
        server.start()
        try:
            yield
        finally:
            server.stop(None).wait()


def run_commands(commands: dict[str, Callable[[], object]]) -> None:
    """Report that the process is ready, and run the named commands until the end of the input."""
    print("ok", flush=True)
    for line in sys.stdin:
        commands[line.strip()]()
        print("ok", flush=True)
