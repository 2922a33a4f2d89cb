"""``/logs/``: files and directories below ``/var/log`` (spec: config.enableSystemLogHandler)."""

from __future__ import annotations

import asyncio
import html
import os
import stat
from pathlib import Path
from urllib.parse import quote

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from nodeagent.base.aio import Clock
from nodeagent.base.gointeger import parse_digits
from nodeagent.contracts.server import SENT_BYTES
from nodeagent_plugins.routes_logs.beneath import open_beneath
from nodeagent_plugins.routes_logs.follow import opened, read_file
from nodeagent_plugins.routes_logs.journal import send_logs
from nodeagent_plugins.routes_logs.query import InvalidQuery, LogQuery, Unparsable, read_query
from nodeagent_plugins.routes_logs.watch import Watches

MAX_ENTRIES = 10_000
WRITE_SECONDS = 600.0
_BINARY = frozenset({".gz", ".xz", ".zst", ".bz2", ".journal"})


class SystemLogs:
    """Serves the files under *root*; neither paths nor links can leave it.

    :param queries: serve ``/logs/?query=…`` from the journal and files (spec: config.enableSystemLogQuery).

    Extensions: ``follow=true`` follows the file across rotation, ``tailLines`` starts near its end.
    """

    def __init__(self, root: Path, clock: Clock, *, queries: bool = False) -> None:
        self._root, self._clock, self._queries = root, clock, queries
        self._watches = Watches()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info.get("path", "")
        if self._queries and not path:
            log_query = _query(request)
            if log_query is not None:
                return await send_logs(request, log_query, self._root)
        try:
            descriptor = await opened(lambda: open_beneath(self._root, path))
        except (OSError, ValueError):
            raise web.HTTPNotFound(text="404 page not found\n") from None
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                return await _directory(request, descriptor, path)
            tail = _tail_lines(request)
            if tail is not None or request.query.get("follow") in ("1", "true"):
                return await self._stream(request, path, tail)
            return await _file(request, descriptor, path)
        finally:
            os.close(descriptor)

    async def _stream(self, request: web.Request, path: str, tail: int | None) -> web.StreamResponse:
        follow = request.query.get("follow") in ("1", "true")
        response = web.StreamResponse(headers={"Content-Type": _type(path), "X-Content-Type-Options": "nosniff"})
        await response.prepare(request)
        pieces = read_file(
            lambda: open_beneath(self._root, path),
            str((self._root / path).parent),
            self._watches,
            self._clock,
            tail_lines=tail,
            more_expected=(lambda: True) if follow else None,
        )
        counted = SENT_BYTES.get()
        try:
            async for piece in pieces:
                counted.count += len(piece)
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(piece)
        finally:
            await pieces.aclose()
        await response.write_eof()
        return response


class _OpenFile(web.FileResponse):
    """Response with a file that is open only while it is sent.

    aiohttp prepares each response once more after the handler, when the descriptor may belong to another file.
    """

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return self._payload_writer if self.prepared else await super().prepare(request)


async def _file(request: web.Request, descriptor: int, path: str) -> web.StreamResponse:
    """Send the open file or the requested ranges."""
    response = _OpenFile(f"/proc/self/fd/{descriptor}")
    response.headers["Content-Type"] = _type(path)
    response.headers["X-Content-Type-Options"] = "nosniff"
    await response.prepare(request)  # Sends the complete file while the descriptor is open.
    SENT_BYTES.get().count = response.content_length or 0
    return response


async def _directory(request: web.Request, descriptor: int, path: str) -> web.StreamResponse:
    if path and not path.endswith("/"):
        last = path.rpartition("/")[2]
        raise web.HTTPMovedPermanently(f"./{quote(last)}/")
    names = await asyncio.to_thread(_entries, descriptor)
    lines = [f'<a href="./{quote(name)}">{html.escape(name)}</a>' for name in names]
    page = '<!doctype html>\n<meta charset="utf-8">\n<pre>\n' + "\n".join(lines) + "\n</pre>\n"
    return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": "default-src 'none'"})


def _entries(descriptor: int) -> list[str]:
    """Return the sorted names, with a slash after those of directories."""
    with os.scandir(descriptor) as entries:
        found = []
        for entry in entries:
            found.append(entry.name + "/" * entry.is_dir(follow_symlinks=False))
            if len(found) >= MAX_ENTRIES:
                break
    return sorted(name.encode(errors="surrogateescape").decode(errors="replace") for name in found)


def _query(request: web.Request) -> LogQuery | None:
    try:
        return read_query(request.query)
    except Unparsable as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    except InvalidQuery as error:
        raise web.HTTPNotAcceptable(text=f"{error}\n") from error


def _tail_lines(request: web.Request) -> int | None:
    text = request.query.get("tailLines", "")
    if not text:
        return None
    if (number := parse_digits(text)) is None:
        raise web.HTTPBadRequest(text="tailLines must be a whole number\n")
    return number


def _type(path: str) -> str:
    """Return the media type: text for all logs, so that browsers do not execute their content."""
    return "application/octet-stream" if Path(path).suffix in _BINARY else "text/plain; charset=utf-8"
