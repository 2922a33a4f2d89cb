"""Profiling endpoints on a Unix socket, without authentication (spec: opt.debug-socket-path)."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.endpoints.profiling import Profiling
from apiserver_stub.transport import response_writer
from apiserver_stub.transport.http import HttpRequest
from apiserver_stub.transport.http1.unix_socket import serve_unix
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.verbs.responses import render, render_error

if TYPE_CHECKING:
    from nodeagent.base.identity import Identity
    from nodeagent.base.profiling.profiles import Profiles

_log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 1 << 20


async def serve(profiles: Profiles, identity: Identity, path: Path, stack: AsyncExitStack) -> None:
    """Serve profiles on the socket *path* until *stack* closes; failure to open the socket is only logged."""

    endpoint = Profiling(profiles)

    async def handle(http: HttpRequest) -> None:
        rest, _, query = http.target.partition("?")
        body = await http.read_body(_MAX_BODY_BYTES) if http.has_body else b""
        info = RequestInfo(http.method.lower(), rest)
        request = Request(http.method, info, Query(query), http.headers, body, ANONYMOUS, PLAIN, identity)
        try:
            reply = await endpoint.respond(request)
        except ApiError as error:
            rendered = render_error(error, PLAIN)
        else:
            missing = Rendered(404, "text/plain; charset=utf-8", [b"404 page not found\n"])
            rendered = missing if reply is None else render(reply, request, None)
        await response_writer.send(http, rendered, (), compress=False)

    try:
        await serve_unix(handle, path, stack)
    except OSError as error:
        _log.error("Failed to serve debug socket", extra={"path": str(path), "err": error})
