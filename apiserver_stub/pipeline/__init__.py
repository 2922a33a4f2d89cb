"""The pipeline of a request: authentication, limits, authorization, verb, store; and its answer."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.media import PLAIN, PRETTY, Format
from apiserver_stub.apimachinery.request import ANONYMOUS, Query, Request, RequestInfo, User, parse_path
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal
from apiserver_stub.authn.certificates import presented_by
from apiserver_stub.authn.impersonation import is_asked_for
from apiserver_stub.nodes import stream
from apiserver_stub.pipeline import aggregation_proxy, authorization, error_responses, limits, watch_response
from apiserver_stub.pipeline.dispatch import streams
from apiserver_stub.telemetry.request_metrics import method_of
from apiserver_stub.transport import response_writer
from apiserver_stub.transport.http2.negotiation import send_goaway
from apiserver_stub.verbs.responses import render_error
from nodeagent.base import apiproto
from nodeagent.base.logging import v_level, verbose

if TYPE_CHECKING:
    from apiserver_stub.audit.context import AuditContext
    from apiserver_stub.kinds import Resource
    from apiserver_stub.server.state import ApiServer

_log = logging.getLogger(__name__)

_NO_WARNINGS: list[str] = []
_ACCESS_VERBOSITY = 3


async def handle(server: ApiServer, http: web.BaseRequest) -> web.StreamResponse:
    """Answer one HTTP request; errors become Status objects."""
    format_, warnings = PLAIN, _NO_WARNINGS
    if server.front is not None and (preflight := server.front.begin(http)) is not None:
        return await response_writer.send(http, preflight, warnings, compress=False)
    if server.page is not None and (shown := server.page.respond(http)) is not None:
        return await response_writer.send(http, shown, warnings, compress=server.compresses)
    path, _, query_text = http.path_qs.partition("?")
    query = Query(query_text)
    info = RequestInfo(http.method.lower(), path)
    known = False
    resource: Resource | None = None
    started = time.perf_counter()
    trail: AuditContext | None = None
    if server.draining:
        refusal = error_responses.while_draining(path, retry_later=server.options.shutdown_send_retry_after)
        if refusal is not None:
            return await response_writer.send(http, refusal, warnings, compress=False)
    try:
        _require_text(http)
        info = parse_path(http.method, path, query)
        told: dict[str, str] | None = {} if server.audit is not None else None
        user = await server.authenticator.authenticate(http.headers, presented_by(http.transport), told)
        known = True
        if server.parts_with_strangers and user.name == ANONYMOUS.name:
            send_goaway(http.transport)
        server.metrics.authenticated += 1
        asked = authorization.pinned(info, query)
        if server.audit is not None and (trail := server.audit.begin(http, asked, user)) is not None:
            trail.event.annotations.update(told or {})
            await trail.received()
        if is_asked_for(http.headers):
            user = await authorization.impersonated(server, user, http, trail)
        remote = server.remotes.find(info) if server.remotes.table else None
        if info.is_resource and remote is None:
            resource = server.registry.find(info.group, info.version, info.resource)
        unacceptable: ApiError | None = None
        try:
            format_ = _negotiate(http, info, query, resource)
        except ApiError as error:
            unacceptable = error  # told to those who may
            format_ = media.of_error(http.headers.get("Accept", ""))
        await authorization.authorize(server, user, asked, trail)
        if unacceptable is not None:
            raise unacceptable
        if remote is not None:
            passed = await aggregation_proxy.run(
                server, http, _request(http, info, query, user, format_), remote, trail
            )
            if isinstance(passed, web.StreamResponse):
                return passed
            rendered = passed
        elif info.group and resource is None and info.group not in dict(server.registry.group_versions()):
            raise error_responses.PlainNotFound
        elif info.verb == "watch" and resource is not None:
            return await watch_response.run(server, http, _request(http, info, query, user, format_), resource, trail)
        elif resource is not None and streams(resource, info, http.method):
            await server.admission.connect(_request(http, info, query, user, format_), resource)
            return await stream.run(stream.Stream(server, http, info, query, trail), server, resource, trail)
        else:
            request = _request(http, info, query, user, format_)
            warnings = request.warnings
            if trail is not None:
                request.annotations = trail.event.annotations
            rendered = await limits.limited(server, http, request, resource, trail)
    except error_responses.TOLD as error:
        if not known and response_writer.wants_pretty(http):
            format_ = PRETTY
        rendered = error_responses.answer(error, http.path_qs, format_)
    except (ConnectionError, asyncio.CancelledError):
        if trail is not None:
            trail.abandoned()
        server.metrics.aborted(info, method_of(http), resource)
        raise
    except Exception as error:  # a bug answers 500 and leaves the server up
        if trail is not None:
            await trail.failed(error)
            trail = None
        _log.exception("Request failed", extra={"method": http.method, "path": path})
        rendered = render_error(internal(type(error).__name__), format_)
    if trail is not None:
        await trail.answered(rendered)
    elif not known and rendered.code == 401:
        if server.parts_with_strangers:
            send_goaway(http.transport)
        if server.audit is not None:
            await server.audit.refuse_stranger(http, info)
    dry_run = "All" if "dryRun" in query else ""
    seconds, size = time.perf_counter() - started, sum(map(len, rendered.pieces))
    server.metrics.count(info, method_of(http), resource, rendered.code, seconds, size, dry_run)
    if server.tracing is not None:
        server.tracing.note(http, rendered.code, seconds, info.verb, response_writer.audit_id(http))
    if verbose(_log, _ACCESS_VERBOSITY):
        facts = {
            "verb": info.verb,
            "uri": http.path_qs,
            "code": rendered.code,
            "latency": f"{1000 * seconds:.3f}ms",
        }
        _log.log(v_level(_ACCESS_VERBOSITY), "HTTP", extra=facts)
    return await response_writer.send(http, rendered, warnings, compress=http.method == "GET" and server.compresses)


def _request(http: web.BaseRequest, info: RequestInfo, query: Query, user: User, format_: Format) -> Request:
    return Request(http.method, info, query, http.headers, b"", user, format_)


def _require_text(http: web.BaseRequest) -> None:
    """Refuse a request whose head is not UTF-8: what it says could be neither told nor stored.

    :raises ApiError: 400.
    """
    text = "".join((http.path_qs, *http.headers.values()))
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise bad_request("the head of the request is not UTF-8") from None


def _negotiate(http: web.BaseRequest, info: RequestInfo, query: Query, resource: Resource | None) -> Format:
    accept = http.headers.get("Accept", "")
    pretty = query.flag("pretty") if "pretty" in query else response_writer.wants_pretty(http)
    if accept in ("", "*/*", media.JSON):
        return PRETTY if pretty else PLAIN
    if resource is None:
        return replace(PRETTY if pretty else PLAIN, error_encoding=media.of_error(accept).encoding)
    protobuf = media.PROTOBUF in accept and apiproto.supports(resource.api_version, resource.kind)
    tables = resource.has_table(info.subresource)
    format_ = media.negotiate(accept, watch=info.verb == "watch", protobuf=protobuf, tables=tables)
    if pretty and not format_.pretty:
        return Format(format_.encoding, format_.shape, format_.shape_version, pretty=True)
    return format_
