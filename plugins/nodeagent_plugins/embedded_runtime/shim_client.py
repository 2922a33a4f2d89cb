"""Client of the container shims."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from nodeagent_plugins.embedded_runtime.errors import CallError

RESPONSE_SECONDS = 10.0


async def command_shim(directory: Path, command: str) -> None:
    """Send *command* to the shim of the container in *directory*.

    :raises CallError: the shim failed or did not respond.
    """
    _, writer = await open_shim(directory, command)
    writer.close()
    await writer.wait_closed()


async def open_shim(directory: Path, command: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send *command* and return the connection once the shim has accepted it; the caller closes it."""
    # Reached through a descriptor, because the path of a socket is limited to 108 bytes.
    home = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        async with asyncio.timeout(RESPONSE_SECONDS):
            reader, writer = await asyncio.open_unix_connection(f"/proc/self/fd/{home}/control")
            writer.write(f"{command}\n".encode())
            response = await reader.readline()
    except (OSError, TimeoutError) as error:
        raise CallError(f"{command}: the container shim does not respond: {error}") from error
    finally:
        os.close(home)
    if response != b"ok\n":
        writer.close()
        raise CallError(f"{command}: {response.decode(errors='replace').strip() or 'the shim closed the connection'}")
    return reader, writer
