"""Profiling endpoints on a Unix socket, without authentication (spec: opt.debug-socket-path)."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints.profiling import Profiling
from apiserver_stub.transport import response_writer
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.verbs.responses import render, render_error

if TYPE_CHECKING:
    from nodeagent.base.identity import Identity
    from nodeagent.base.profiling.profiles import Profiles

_log = logging.getLogger(__name__)

_OWNER_ONLY = 0o600


async def serve(profiles: Profiles, identity: Identity, path: Path, stack: AsyncExitStack) -> None:
    """Serve profiles on the socket *path* until *stack* closes; failure to open the socket is only logged."""

    endpoint = Profiling(profiles)

    async def handle(http: web.BaseRequest) -> web.StreamResponse:
        rest, _, query = http.path_qs.partition("?")
        body = await http.read() if http.can_read_body else b""
        info = RequestInfo(http.method.lower(), rest)
        request = Request(http.method, info, Query(query), http.headers, body, ANONYMOUS, PLAIN, identity)
        try:
            reply = await endpoint.respond(request)
        except ApiError as error:
            return await response_writer.send(http, render_error(error, PLAIN), (), compress=False)
        missing = Rendered(404, "text/plain; charset=utf-8", [b"404 page not found\n"])
        return await response_writer.send(
            http, missing if reply is None else render(reply, request, None), (), compress=False
        )

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await asyncio.to_thread(path.unlink, missing_ok=True)
        await web.UnixSite(runner, path).start()
        await asyncio.to_thread(path.chmod, _OWNER_ONLY)
    except OSError as error:
        _log.error("Failed to serve debug socket", extra={"path": str(path), "err": error})
