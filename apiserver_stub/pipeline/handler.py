"""The path of a request through the pipeline."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.media import PLAIN, PRETTY, Format
from apiserver_stub.apimachinery.request import (
    ANONYMOUS,
    Query,
    Request,
    RequestInfo,
    parse_path,
)
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal
from apiserver_stub.authn.certificates import presented_by
from apiserver_stub.authn.impersonation import is_requested
from apiserver_stub.pipeline import error_responses
from apiserver_stub.pipeline.aggregation_proxy import LONG_RUNNING
from apiserver_stub.pipeline.authorization import pinned
from apiserver_stub.pipeline.httplog import log_request
from apiserver_stub.pipeline.request_metrics import method_of
from apiserver_stub.transport import response_writer
from apiserver_stub.verbs.responses import render_error
from nodeagent.base import apiproto, tracing
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.admission import AdmissionChain
    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.audit.context import Audit, AuditContext
    from apiserver_stub.authn import Authenticator
    from apiserver_stub.endpoints.page import Page
    from apiserver_stub.kinds import Registry, Resource
    from apiserver_stub.lifecycle import Lifecycle
    from apiserver_stub.pipeline.aggregation_proxy import AggregationProxy
    from apiserver_stub.pipeline.authorization import Authorization
    from apiserver_stub.pipeline.cors import CorsAndHsts
    from apiserver_stub.pipeline.dispatch import Dispatcher
    from apiserver_stub.pipeline.limits import Limits
    from apiserver_stub.pipeline.request_metrics import RequestMetrics
    from apiserver_stub.pipeline.stream_response import StreamResponder
    from apiserver_stub.pipeline.watch_response import WatchResponder
    from apiserver_stub.telemetry.tracing import Tracing
    from apiserver_stub.transport.http import HttpRequest

_log = logging.getLogger(__name__)

_NO_WARNINGS: list[str] = []
_JSON = frozenset(["", "*/*", media.JSON])
"""Values of the ``Accept`` header that do not need a negotiation."""


class RequestHandler:
    """Handler of every HTTP request.

    :param authorizes_connections: whether exec, attach and portforward require the permission to create, also as GET.
    :param authorizes_selectors: whether authorizers receive the selectors of requests (feature gate
        ``AuthorizeWithSelectors``).
    :param closes_unauthenticated: whether HTTP/2 connections of anonymous and unauthenticated clients end after one
        response (feature gate ``UnauthenticatedHTTP2DOSMitigation``).
    :param sends_retry_after: whether requests during the drain get 429 (spec:
        opt.shutdown-send-retry-after).
    """

    def __init__(
        self,
        *,
        identity: Identity,
        lifecycle: Lifecycle,
        authenticator: Authenticator,
        authorization: Authorization,
        audit: Audit | None,
        registry: Registry,
        remotes: Remotes,
        admission: AdmissionChain,
        dispatcher: Dispatcher,
        limits: Limits,
        watches: WatchResponder,
        streams: StreamResponder,
        aggregation: AggregationProxy,
        metrics: RequestMetrics,
        tracing: Tracing | None = None,
        cors: CorsAndHsts | None = None,
        page: Page | None = None,
        compresses: bool = True,
        authorizes_connections: bool = False,
        authorizes_selectors: bool = False,
        closes_unauthenticated: bool = False,
        sends_retry_after: bool = False,
    ) -> None:
        self._identity, self._protobuf = identity, identity.protobuf_media_type
        self._lifecycle, self._authenticator, self._authorization = lifecycle, authenticator, authorization
        self._audit, self._registry, self._remotes, self._admission = audit, registry, remotes, admission
        self._dispatcher, self._limits, self._watches, self._streams = dispatcher, limits, watches, streams
        self._aggregation, self._metrics, self._tracing = aggregation, metrics, tracing
        self._cors, self._page, self._compresses = cors, page, compresses
        self._authorizes_connections, self._authorizes_selectors = authorizes_connections, authorizes_selectors
        self._closes_unauthenticated, self._sends_retry_after = closes_unauthenticated, sends_retry_after

    def handle(self, http: HttpRequest) -> Awaitable[None]:
        """Respond to one HTTP request; errors become Status objects.

        :raises ConnectionError: the response cannot be completed.
        """
        return self._handle(http) if self._tracing is None else self._trace(self._tracing, http)

    async def _trace(self, tracing: Tracing, http: HttpRequest) -> None:
        with tracing.request(http):
            await self._handle(http)

    async def _handle(self, http: HttpRequest) -> None:
        format_, warnings = PLAIN, _NO_WARNINGS
        if self._cors is not None and (preflight := self._cors.begin(http)) is not None:
            await response_writer.send(http, preflight, warnings, compress=False)
            return
        if self._page is not None and (shown := self._page.respond(http)) is not None:
            await response_writer.send(http, shown, warnings, compress=self._compresses)
            return
        path, _, query_text = http.target.partition("?")
        query = Query(query_text)
        info = RequestInfo(http.method.lower(), path)
        authenticated = False
        resource: Resource | None = None
        started = time.perf_counter()
        audit_context: AuditContext | None = None
        if self._lifecycle.draining:
            rejection = error_responses.while_draining(path, retry_later=self._sends_retry_after)
            if rejection is not None:
                await response_writer.send(http, rejection, warnings, compress=False)
                return
        try:
            _require_text(http)
            info = parse_path(http.method, path, query)
            annotations: dict[str, str] | None = {} if self._audit is not None else None
            authenticating = self._authenticator.authenticate(
                http.headers, presented_by(http.tls), annotations, path=info.path
            )
            user = await tracing.during("authentication", authenticating)
            authenticated = True
            if self._closes_unauthenticated and user.name == ANONYMOUS.name:
                _close_http2(http)
            self._metrics.authenticated += 1
            authorized = pinned(info, query, selects=self._authorizes_selectors)
            if self._audit is not None:
                with tracing.child("audit"):
                    if (audit_context := self._audit.begin(http, authorized, user)) is not None:
                        audit_context.event.annotations.update(annotations or {})
                        await audit_context.received()
            if is_requested(http.headers):
                with tracing.child("impersonation"):
                    user = await self._authorization.impersonate(user, http, authorized, audit_context)
            remote = self._remotes.find(info) if self._remotes.table else None
            if info.is_resource and remote is None:
                resource = self._registry.find(info.group, info.version, info.resource)
            unacceptable: ApiError | None = None
            try:
                format_ = self._negotiate(http, info, query, resource)
            except ApiError as error:
                unacceptable = error  # Reported to authorized users.
                format_ = media.of_error(http.headers.get("Accept", ""), self._identity)
            authorizing = self._authorization.authorize(user, authorized, audit_context)
            try:
                await tracing.during("authorization", authorizing)
                if unacceptable is not None:
                    raise unacceptable
            except error_responses.HANDLED:
                if info.subresource not in LONG_RUNNING:
                    self._limits.classify(http, user, info)
                raise
            request = Request(http.method, info, query, http.headers, b"", user, format_, self._identity)
            if audit_context is not None:
                audit_context.annotate(request)
            if remote is not None:
                proxied = await self._aggregation.run(http, request, remote, audit_context)
                if proxied is None:
                    return
                rendered = proxied
            elif info.group and resource is None and info.group not in dict(self._registry.group_versions()):
                raise error_responses.PlainNotFound
            elif info.verb == "watch" and resource is not None:
                self._dispatcher.check_watch(resource, info, http.method)
                self._limits.classify(http, user, info)
                await self._watches.run(http, request, resource, audit_context)
                return
            elif resource is not None and self._dispatcher.streams(resource, info, http.method):
                if self._authorizes_connections and _runs_in_pod(info) and info.verb != "create":
                    await self._authorization.authorize(user, replace(authorized, verb="create"), audit_context)
                await self._admission.connect(request, resource)
                await self._streams.run(http, info, query, resource, audit_context)
                return
            else:
                warnings = request.warnings
                rendered = await self._limits.limited(http, request, resource, audit_context)
        except error_responses.HANDLED as error:
            if not authenticated and response_writer.prefers_pretty(http):
                format_ = PRETTY
            rendered = error_responses.response_to(error, http.target, format_)
        except (ConnectionError, asyncio.CancelledError):
            if audit_context is not None:
                audit_context.abandoned()
            self._metrics.aborted(info, method_of(http), resource)
            raise
        except Exception as error:  # A bug fails its request, not the server.
            if audit_context is not None:
                await audit_context.failed(error)
                audit_context = None
            fields = {"method": http.method, "URI": http.target, "auditID": response_writer.audit_id(http)}
            _log.exception("apiserver panic'd", extra=fields)
            rendered = render_error(internal(type(error).__name__), format_)
        if audit_context is not None:
            await audit_context.responded(rendered)
        elif not authenticated and rendered.code == 401:
            if self._closes_unauthenticated:
                _close_http2(http)
            if self._audit is not None:
                await self._audit.authentication_failed(http, info)
        dry_run = "All" if "dryRun" in query else ""
        seconds, size = time.perf_counter() - started, sum(map(len, rendered.pieces))
        self._metrics.count(info, method_of(http), resource, rendered.code, seconds, size, dry_run)
        if self._tracing is not None:
            self._tracing.responded(http, rendered.code, info.verb)
        log_request(http, info, rendered.code, seconds)
        await response_writer.send(http, rendered, warnings, compress=http.method == "GET" and self._compresses)

    def _negotiate(self, http: HttpRequest, info: RequestInfo, query: Query, resource: Resource | None) -> Format:
        identity, accept = self._identity, http.headers.get("Accept", "")
        pretty = query.flag("pretty") if "pretty" in query else response_writer.prefers_pretty(http)
        if accept in _JSON:
            return PRETTY if pretty else PLAIN
        if resource is None:
            return replace(PRETTY if pretty else PLAIN, error_encoding=media.of_error(accept, identity).encoding)
        protobuf = self._protobuf in accept and apiproto.supports(
            resource.api_version, resource.kind, identity.api_domain
        )
        tables = resource.has_table(info.subresource)
        format_ = media.negotiate(
            accept,
            identity,
            watch=info.verb == "watch",
            protobuf=protobuf,
            tables=tables,
            streams=info.verb in ("list", "watch"),
        )
        if pretty and not format_.pretty:
            return Format(format_.encoding, format_.shape, format_.shape_version, pretty=True)
        return format_


def _runs_in_pod(info: RequestInfo) -> bool:
    """Return whether a request connects a client to processes of a pod."""
    return (info.group, info.resource) == ("", "pods") and info.subresource in ("attach", "exec", "portforward")


def _close_http2(http: HttpRequest) -> None:
    """Close an HTTP/2 connection after the response; an HTTP/1.1 connection stays open."""
    if http.version >= (2, 0):
        http.close_after_response()


def _require_text(http: HttpRequest) -> None:
    """Reject a request whose head is not UTF-8.

    :raises ApiError: 400.
    """
    text = "".join((http.target, *http.headers.values()))
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise bad_request("the head of the request is not UTF-8") from None
