"""Node log queries: from the journal if it contains the service, otherwise from the service's file.

spec: config.enableSystemLogQuery
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from aiohttp import web

from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_logs.beneath import open_beneath
from nodeagent_plugins.routes_logs.follow import opened
from nodeagent_plugins.routes_logs.query import LogQuery, journal_arguments

QUERY_SECONDS = 30.0
BLOCK_BYTES = 64 * 1024
PROGRAM = "journalctl"


async def send_logs(request: web.Request, log_query: LogQuery, root: Path) -> web.StreamResponse:
    """Send the logs that *log_query* selects; limited to 30 seconds unless the query follows.

    :raises web.HTTPException: there is no such log.
    """
    known = [service for service in log_query.services if await _in_journal(service)]
    others = [service for service in log_query.services if service not in known]
    if others and log_query.has_options:
        names = " ".join(others)
        text = f"options present and query resolved to log files for [{names}]\ntry without specifying options\n"
        raise web.HTTPBadRequest(text=text)
    files = [await opened(partial(_open, root, log_query.file))] if log_query.file else []
    response = web.StreamResponse(
        headers={"Content-Type": "text/plain;charset=UTF-8", "X-Content-Type-Options": "nosniff"}
    )
    try:
        for service in others:
            files.append(await opened(partial(_open_service, root, service)))
        if request.headers.get("Accept-Encoding") == "gzip":
            response.enable_compression(web.ContentCoding.gzip)
        async with asyncio.timeout(None if log_query.follow and known else QUERY_SECONDS):
            await response.prepare(request)
            for descriptor in files:
                while block := await asyncio.to_thread(os.read, descriptor, BLOCK_BYTES):
                    await _write(response, block)
            if known:
                await _journal(response, journal_arguments(log_query, known))
            await response.write_eof()
    finally:
        for descriptor in files:
            os.close(descriptor)
    return response


async def _write(response: web.StreamResponse, block: bytes) -> None:
    SENT_BYTES.get().count += len(block)
    await response.write(block)


async def _journal(response: web.StreamResponse, arguments: Sequence[str]) -> None:
    """Copy the output of ``journalctl``, which is terminated with the request."""
    child = await _start(arguments)
    try:
        assert child.stdout is not None
        while block := await child.stdout.read(BLOCK_BYTES):
            await _write(response, block)
    finally:
        await _end(child)


async def _in_journal(service: str) -> bool:
    """Return whether the journal contains entries of *service*."""
    try:
        child = await _start(["--no-pager", "--quiet", "--lines=1", f"--unit={service}"])
    except OSError:
        return False  # A host without a journal.
    try:
        assert child.stdout is not None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUERY_SECONDS):
                return bool((await child.stdout.read(1)).strip())
        return False
    finally:
        await _end(child)


async def _start(arguments: Sequence[str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        PROGRAM,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def _end(child: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    await child.wait()


def _open_service(root: Path, service: str) -> int:
    for name in (service, f"{service}.log", f"{service}/{service}.log"):
        with contextlib.suppress(web.HTTPNotFound):
            return _open(root, name)
    raise web.HTTPNotFound(text=f"log not found for {service}\n")


def _open(root: Path, name: str) -> int:
    try:
        descriptor = open_beneath(root, name.replace("\\", "/"))
    except (OSError, ValueError):
        raise web.HTTPNotFound(text=f"log not found for {name}\n") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise web.HTTPNotFound(text=f"log not found for {name}\n")
    return descriptor
