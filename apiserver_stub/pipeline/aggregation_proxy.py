"""Requests that another server answers: its API service says which (spec: opt.proxy-client-cert-file)."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.aggregation.identity_headers import headers_of
from apiserver_stub.aggregation.remotes import Remote
from apiserver_stub.aggregation.service_resolver import Unresolved
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes import stream
from apiserver_stub.nodes.agents import Unreachable
from apiserver_stub.nodes.reverse_proxy import relay
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.pipeline import limits
from apiserver_stub.pipeline.error_responses import PlainError
from nodeagent.base.tunnel import is_upgrade

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.server.state import ApiServer
    from apiserver_stub.verbs.responses import Rendered

_log = logging.getLogger(__name__)

_LONG = frozenset(["attach", "exec", "log", "portforward", "proxy"])
"""Subresources whose answers may go on for ever, as watches do."""


async def run(
    server: ApiServer, http: web.BaseRequest, request: Request, remote: Remote, trail: AuditContext | None
) -> web.StreamResponse | Rendered:
    """Pass *request* on to *remote* and its answer back, with the time and the place that requests get here.

    :raises ApiError: it was refused before the answer began.
    :raises ConnectionError: the answer broke off.
    """
    info = request.info
    passing = Stream(server, http, info, request.query, trail)

    async def answer() -> web.StreamResponse:
        handler = partial(_pass_on, server, request, remote)
        return await stream.carry(passing, server, handler, info, None, trail)

    if info.verb == "watch" or info.subresource in _LONG or is_upgrade(http):
        return await answer()
    try:
        return await limits.limited(server, http, request, None, trail, answer)
    except ApiError as error:
        if passing.begun:
            raise ConnectionResetError(str(error)) from error
        raise


async def _pass_on(server: ApiServer, request: Request, remote: Remote, passing: Stream) -> web.StreamResponse:
    if not remote.available or server.extensions is None:
        raise _unavailable("service unavailable")
    try:
        place = await server.extensions.place_of(remote)
        caller = list(headers_of(request.user))
    except Unresolved as error:
        _log.error("Service of an API service is not found", extra={"apiService": remote.name, "err": error})
        raise _unavailable("service unavailable") from error
    except (OSError, ValueError) as error:
        raise PlainError(500, "InternalError", str(error)) from error
    redirects = not server.options.aggregator_reject_forwarding_redirect
    try:
        return await relay(passing, place, passing.http.path_qs, "", caller=caller, redirects=redirects)
    except Unreachable as error:
        raise _unavailable(error.message) from error


def _unavailable(message: str) -> PlainError:
    return PlainError(503, "ServiceUnavailable", message)
