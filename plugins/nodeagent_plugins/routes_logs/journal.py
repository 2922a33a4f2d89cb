"""Answers node log queries: from the journal where it knows the service, else from the service's file.

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


async def answer_query(request: web.Request, asked: LogQuery, root: Path) -> web.StreamResponse:
    """Send what *asked* asks for; 30 seconds in all, unless it follows.

    :raises web.HTTPException: there is no such log.
    """
    known = [service for service in asked.services if await _in_journal(service)]
    others = [service for service in asked.services if service not in known]
    if others and asked.has_options:
        names = " ".join(others)
        text = f"options present and query resolved to log files for [{names}]\ntry without specifying options\n"
        raise web.HTTPBadRequest(text=text)
    files = [await opened(partial(_open, root, asked.file))] if asked.file else []
    answer = web.StreamResponse(
        headers={"Content-Type": "text/plain;charset=UTF-8", "X-Content-Type-Options": "nosniff"}
    )
    try:
        for service in others:
            files.append(await opened(partial(_open_service, root, service)))
        if request.headers.get("Accept-Encoding") == "gzip":
            answer.enable_compression(web.ContentCoding.gzip)
        async with asyncio.timeout(None if asked.follow and known else QUERY_SECONDS):
            await answer.prepare(request)
            for descriptor in files:
                while block := await asyncio.to_thread(os.read, descriptor, BLOCK_BYTES):
                    await _write(answer, block)
            if known:
                await _journal(answer, journal_arguments(asked, known))
            await answer.write_eof()
    finally:
        for descriptor in files:
            os.close(descriptor)
    return answer


async def _write(answer: web.StreamResponse, block: bytes) -> None:
    SENT_BYTES.get().count += len(block)
    await answer.write(block)


async def _journal(answer: web.StreamResponse, arguments: Sequence[str]) -> None:
    """Pass on what the program writes; it ends with the request."""
    child = await _start(arguments)
    try:
        assert child.stdout is not None
        while block := await child.stdout.read(BLOCK_BYTES):
            await _write(answer, block)
    finally:
        await _end(child)


async def _in_journal(service: str) -> bool:
    """Whether the journal has anything of *service*."""
    try:
        child = await _start(["--no-pager", "--quiet", "--lines=1", f"--unit={service}"])
    except OSError:
        return False  # a machine without a journal
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
