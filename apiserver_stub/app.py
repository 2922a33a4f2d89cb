"""The pipeline of a request: authentication, limits, authorization, verb, store; and its answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from aiohttp import web

from apiserver_stub import discovery, health, issuer, media, objects, openapi, profiling, wire
from apiserver_stub.admission import Admission
from apiserver_stub.audit.trail import Audit, Trail
from apiserver_stub.authn import Authenticator
from apiserver_stub.authn.certificates import presented_by
from apiserver_stub.authn.impersonation import NoUserNamed, impersonate, is_asked_for
from apiserver_stub.authn.service_account import ServiceAccountTokens
from apiserver_stub.authz import Chain
from apiserver_stub.contention import Contention
from apiserver_stub.controllers.namespaces import fill_namespace
from apiserver_stub.fairness import Fairness, Rejected
from apiserver_stub.media import PLAIN, Format
from apiserver_stub.metrics import Metrics
from apiserver_stub.nodes import stream
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.options import Options
from apiserver_stub.origins import Front
from apiserver_stub.page import Page
from apiserver_stub.reply import Rendered, Reply, render, render_error
from apiserver_stub.request import Query, Request, RequestInfo, User, check_method, parse_path
from apiserver_stub.resources import Registry, Resource
from apiserver_stub.status import (
    ApiError,
    bad_request,
    details_of,
    internal,
    method_not_allowed,
    no_such_resource,
    qualified,
    quote,
    too_large,
    unavailable,
)
from apiserver_stub.store import Store, StoreRefused, StoreUnavailable
from apiserver_stub.store.calls import Calls
from apiserver_stub.store.polls import Check, Polls
from apiserver_stub.tracing import Tracing
from apiserver_stub.validation import path_problems
from apiserver_stub.verbs.create import create
from apiserver_stub.verbs.delete import delete, delete_collection
from apiserver_stub.verbs.get import get
from apiserver_stub.verbs.lists import list_objects
from apiserver_stub.verbs.patch import patch
from apiserver_stub.verbs.update import update
from apiserver_stub.verbs.watch import Watch
from nodeagent.base import apiproto
from nodeagent.base.duration import parse_duration
from nodeagent.base.logging import v_level, verbose
from nodeagent.base.selectors import SelectorError, parse_field_selector

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 3 << 20
_NOSNIFF = {"X-Content-Type-Options": "nosniff"}
_EXEMPT_WHILE_DRAINING = ("/healthz", "/livez", "/metrics", "/readyz")
_DRAIN_POLL_SECONDS = 0.02
_NO_WARNINGS: list[str] = []
_TOO_MANY = Rendered(
    429,
    "text/plain; charset=utf-8",
    [b"Too many requests, please try again later.\n"],
    {**_NOSNIFF, "Retry-After": "1"},
)
_ACCESS_VERBOSITY = 3
_TYPE = ("kind", "apiVersion")
_MUTATING = frozenset(["POST", "PUT", "PATCH", "DELETE"])

Verb = Callable[["ApiServer", Request, Resource], Awaitable[Reply]]

_VERBS: dict[str, Verb] = {
    "create": create,
    "delete": delete,
    "deletecollection": delete_collection,
    "get": get,
    "list": list_objects,
    "patch": patch,
    "update": update,
}


class ApiServer:
    """Everything that requests need, and the handler that answers them."""

    def __init__(
        self,
        options: Options,
        store: Store,
        registry: Registry,
        *,
        authenticator: Authenticator,
        authorizer: Chain,
        tokens: ServiceAccountTokens,
        ca_certificate: str,
        agents: NodeAgents,
        audit: Audit | None = None,
    ) -> None:
        self.options: Options = options
        self.store: Store = store
        self.registry: Registry = registry
        self.authenticator, self.authorizer = authenticator, authorizer
        self.admission = Admission()
        self.tokens, self.ca_certificate = tokens, ca_certificate
        self.agents = agents
        self.audit = audit
        self.metrics = Metrics()
        self.polls = Polls(store)
        self.store_calls = Calls()
        self.storage_checks: dict[str, Check] = {}
        """Health checks of the store, by name."""
        self._metric_choice = options.metric_choice()
        origins, directives = options.cors_allowed_origins, options.strict_transport_security_directives
        self._front = Front(origins, directives) if origins or directives else None
        self.fairness: Fairness | None = None
        if options.enable_priority_and_fairness:
            total = options.max_requests_inflight + options.max_mutating_requests_inflight
            self.fairness = Fairness(total, options.request_timeout_seconds / 4)
        self.tracing: Tracing | None = None
        self.page: Page | None = None
        """Set while there is a page for browsers."""
        self.contention: Contention | None = None
        """Set while contention is profiled."""
        self.ready: bool = False
        self.leaving: bool = False
        """A stop was asked for: requests are still served, and ``/readyz`` sends callers elsewhere."""
        self.draining: bool = False
        """New requests are refused; those under way end."""
        self.stopping: asyncio.Event = asyncio.Event()
        """Watches end."""
        self._started = time.monotonic()
        self.address = ""
        self._in_flight = {True: 0, False: 0}
        self._compresses = options.gates.enabled("APIResponseCompression")

    # Its life

    @property
    def in_livez_grace(self) -> bool:
        """Whether an unfinished start still counts as a good one."""
        return time.monotonic() - self._started < self.options.livez_grace_seconds

    def in_flight(self, *, mutating: bool) -> int:
        """Return how many requests are under way, watches not counted."""
        return self._in_flight[mutating]

    async def drain(self) -> None:
        """Refuse new requests and return when those under way have ended, at the latest after the request timeout."""
        self.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.request_timeout_seconds):
                while sum(self._in_flight.values()):  # noqa: ASYNC110 - counted on every request, waited for once
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    async def end_watches(self) -> None:
        """End watches, and wait for them as long as they are given."""
        self.stopping.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.shutdown_watch_grace_seconds):
                while self.metrics.watches:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(_DRAIN_POLL_SECONDS)

    def _refusal(self, path: str) -> Rendered | None:
        """Return the answer to a new request while the server drains; who asks for its health gets that."""
        if not self.options.shutdown_send_retry_after:
            return render_error(unavailable("apiserver is shutting down"), PLAIN)
        if path.startswith(_EXEMPT_WHILE_DRAINING):
            return None
        text = b"The apiserver is shutting down, please try again later.\n"
        headers = {**_NOSNIFF, "Retry-After": "5", "Connection": "close"}
        return Rendered(429, "text/plain; charset=utf-8", [text], headers)

    # What controllers and verbs use

    def ttl_of(self, resource: Resource) -> int | None:
        """Return the lifetime in seconds of objects of *resource*, ``None`` when they stay."""
        return self.options.event_ttl_seconds or None if resource.ttl else None

    def positions(self, *collections: str) -> dict[str, int]:
        """Return where the logs of *collections* end now, for :meth:`changed_since`."""
        return {name: self.store.collection(name).end for name in collections}

    async def changed_since(self, positions: dict[str, int], *, timeout_seconds: float | None = None) -> None:
        """Return when one of the collections has moved on, or after *timeout_seconds*."""
        waits = [
            asyncio.ensure_future(self.store.collection(name).wait(position)) for name, position in positions.items()
        ]
        try:
            await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # The pipeline

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request; errors become Status objects."""
        format_, warnings = PLAIN, _NO_WARNINGS
        if self._front is not None and (preflight := self._front.begin(http)) is not None:
            return await wire.send(http, preflight, warnings, compress=False)
        if self.page is not None and (shown := self.page.answer(http)) is not None:
            return await wire.send(http, shown, warnings, compress=self._compresses)
        path, _, query_text = http.path_qs.partition("?")
        query = Query(query_text)
        info = RequestInfo(http.method.lower(), path)
        known = False
        resource: Resource | None = None
        started = time.perf_counter()
        trail: Trail | None = None
        if self.draining and (refusal := self._refusal(path)) is not None:
            return await wire.send(http, refusal, warnings, compress=False)
        try:
            _require_text(http)
            info = parse_path(http.method, path, query)
            user = await self.authenticator.authenticate(http.headers, presented_by(http.transport))
            known = True
            self.metrics.authenticated += 1
            if self.audit is not None and (trail := self.audit.begin(http, info, user)) is not None:
                await trail.received()
            if is_asked_for(http.headers):
                user = await self._impersonated(user, http, trail)
            resource = self.registry.find(info.group, info.version, info.resource) if info.is_resource else None
            unacceptable: ApiError | None = None
            try:
                format_ = _negotiate(http, info, query, resource)
            except ApiError as error:
                unacceptable = error  # told to those who may
                format_ = media.of_refusal(http.headers.get("Accept", ""))
            await self._authorize(user, _pinned(info, query), trail)
            if unacceptable is not None:
                raise unacceptable
            if info.group and resource is None and (info.group, info.version) not in self.registry.group_versions():
                raise PlainNotFound
            if info.verb == "watch" and resource is not None:
                return await self._watch(http, self._request(http, info, query, b"", user, format_), resource, trail)
            if resource is not None and self._streams(resource, info, http.method):
                await self.admission.connect(self._request(http, info, query, b"", user, format_), resource)
                return await stream.run(stream.Stream(self, http, info, query, trail), self, resource, trail)
            body = await self._admit_body(http)
            if trail is not None:
                trail.sent(http.headers, body)
            request = self._request(http, info, query, body, user, format_)
            warnings = request.warnings
            if trail is not None:
                request.annotations = trail.event.annotations
            rendered = await self._limited(http, request, resource)
        except AuthorizationFailed as error:
            text = f'Internal Server Error: "{http.path_qs}": {error}\n'
            rendered = Rendered(500, "text/plain; charset=utf-8", [text.encode()], _NOSNIFF)
        except PlainError as error:
            rendered = Rendered(error.code, "text/plain; charset=utf-8", [error.message.encode() + b"\n"], _NOSNIFF)
        except ApiError as error:
            rendered = render_error(error, format_)
        except StoreUnavailable as error:
            rendered = render_error(unavailable(str(error)), format_)
        except StoreRefused as error:
            rendered = render_error(internal(str(error)), format_)
        except RecursionError:  # from a body: nothing else here is deep
            rendered = render_error(bad_request("json: exceeded max depth"), format_)
        except (ConnectionError, asyncio.CancelledError):
            if trail is not None:
                trail.abandoned()
            self.metrics.aborted(info, http.method, resource)
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
            self.metrics.strangers += 1
            if self.audit is not None:
                await self.audit.refuse_stranger(http, info)
        dry_run = "All" if "dryRun" in query else ""
        seconds, size = time.perf_counter() - started, sum(map(len, rendered.pieces))
        self.metrics.count(info, http.method, resource, rendered.code, seconds, size, dry_run)
        if self.tracing is not None:
            self.tracing.note(http, rendered.code, seconds, info.verb, wire.audit_id(http))
        if verbose(_log, _ACCESS_VERBOSITY):
            facts = {
                "verb": info.verb,
                "uri": http.path_qs,
                "code": rendered.code,
                "latency": f"{1000 * seconds:.3f}ms",
            }
            _log.log(v_level(_ACCESS_VERBOSITY), "HTTP", extra=facts)
        return await wire.send(http, rendered, warnings, compress=http.method == "GET" and self._compresses)

    async def _impersonated(self, user: User, http: web.BaseRequest, trail: Trail | None) -> User:
        """Return whom *user* asks to act as, each part of it allowed on its own."""

        async def authorize(wanted: RequestInfo) -> None:
            await self._authorize(user, wanted, trail)

        try:
            other = await impersonate(http.headers, authorize)
        except NoUserNamed as error:
            text = f'Internal Server Error: "{http.path_qs}": requested {error} without impersonating a user'
            raise PlainError(500, "InternalError", text) from None
        if trail is not None and other is not None:
            trail.impersonated(other)
        return other or user

    async def _authorize(self, user: User, info: RequestInfo, trail: Trail | None) -> None:
        """Return when *user* may.

        :raises ApiError: 403, or 500 when nobody could decide.
        """
        verdict = await self.authorizer.authorize(user, info)
        if verdict.error and not verdict.allowed:
            self.metrics.undecided += 1
            if trail is not None:
                trail.undecided()
            raise AuthorizationFailed(verdict.error)
        if trail is not None:
            trail.authorized(verdict.allowed, verdict.reason)
        if verdict.allowed:
            self.metrics.allowed += 1
            return
        self.metrics.denied += 1
        ending = f": {verdict.reason}" if verdict.reason else ""
        if not info.is_resource:
            message = f'forbidden: User {quote(user.name)} cannot {info.verb} path "{info.path}"{ending}'
            raise ApiError(403, "Forbidden", message, {})
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        where = f'in the namespace "{info.namespace}"' if info.namespace else "at the cluster scope"
        named = f' "{info.name}"' if info.name else ""
        message = (
            f"{qualified(info.resource, info.group)}{named} is forbidden: User {quote(user.name)} cannot {info.verb} "
            f'resource "{resource}" in API group "{info.group}" {where}{ending}'
        )
        raise ApiError(403, "Forbidden", message, details_of(info.group, info.resource, info.name))

    async def _admit_body(self, http: web.BaseRequest) -> bytes:
        if http.method not in _MUTATING or not http.can_read_body:
            return b""
        limit = too_large(f"limit is {MAX_BODY_BYTES}")
        if (http.content_length or 0) > MAX_BODY_BYTES:
            raise limit
        if http.headers.get("Expect", "").lower() == "100-continue" and http.transport is not None:
            http.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            async with asyncio.timeout(self.options.request_timeout_seconds):
                return await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise limit from None
        except TimeoutError:
            raise _timed_out() from None

    async def _limited(self, http: web.BaseRequest, request: Request, resource: Resource | None) -> Rendered:
        """Let the request in when there is a place for it, and end it when it takes too long."""
        info = request.info
        seconds = self._time_for(request)
        mutating = request.method in _MUTATING
        level = None
        if self.fairness is not None and not info.path.startswith(profiling.ROOT):  # who profiles looks on
            schema = self.fairness.sort(request.user, info)
            given = http.get(wire.EXTRA_HEADERS)
            http[wire.EXTRA_HEADERS] = {**given, **schema.headers} if given else schema.headers
            try:
                level = await self.fairness.enter(schema, request.user, info)
            except Rejected:
                self.metrics.terminated(info, request.method, resource, 429)
                return _TOO_MANY
        elif self._is_full(request, mutating):
            self.metrics.terminated(info, request.method, resource, 429)
            return _TOO_MANY
        self._in_flight[mutating] += 1
        try:
            async with asyncio.timeout(seconds):
                return await self._dispatch(request, resource)
        except TimeoutError:
            self.metrics.terminated(info, request.method, resource, 504)
            raise _timed_out() from None
        finally:
            self._in_flight[mutating] -= 1
            for end in request.afterwards:
                end()
            if level is not None:
                level.leave()

    def _is_full(self, request: Request, mutating: bool) -> bool:
        options = self.options
        limit = options.max_mutating_requests_inflight if mutating else options.max_requests_inflight
        counts = request.info.is_resource and "system:masters" not in request.user.groups
        return counts and limit > 0 and self._in_flight[mutating] >= limit

    def _time_for(self, request: Request) -> float:
        """Return the seconds that a request may take: what it asks for, and not more than the server has.

        :raises ApiError: 400, it asks for what is no length of time; 504, there is no time at all.
        """
        seconds = self.options.request_timeout_seconds
        if text := request.query.get("timeout"):
            try:
                asked = parse_duration(text).seconds
            except ValueError:
                problem = f'time: invalid duration "{text}"'
                raise bad_request(f"invalid timeout specified in the request URL - {problem}") from None
            seconds = min(seconds, asked) if asked > 0 else seconds
        if not seconds:
            raise _timed_out()
        return seconds

    def _streams(self, resource: Resource, info: RequestInfo, method: str) -> bool:
        """Return whether the answer comes as a stream from elsewhere.

        :raises ApiError: 404 or 405, there is no such path for this method.
        """
        subresource = resource.subresource(info.subresource) if info.subresource else None
        if subresource is None or subresource.stream is None:
            return False
        check_method(info, method)
        if info.verb not in subresource.verbs:
            raise method_not_allowed()
        if bool(info.namespace) != resource.namespaced or (info.rest and subresource.name != "proxy"):
            raise no_such_resource()
        return True

    async def _dispatch(self, request: Request, resource: Resource | None) -> Rendered:
        info = request.info
        if not info.is_resource:
            return render(await self._non_resource(request), request, None)
        check_method(info, request.method)
        if resource is None:
            raise no_such_resource()
        if resource.namespaced and not info.namespace and info.verb not in ("list", "watch"):
            raise method_not_allowed()
        if not resource.namespaced and info.namespace and resource.plural != "namespaces":
            raise no_such_resource()
        reply = await self._verb(request, resource)(self, request, resource)
        if info.verb == "create" and resource.plural == "namespaces" and reply.record is not None:
            await fill_namespace(self, reply.record.key)
        return render(reply, request, resource)

    def _verb(self, request: Request, resource: Resource) -> Verb:
        info = request.info
        if info.subresource:
            subresource = resource.subresource(info.subresource)
            if subresource is None:
                raise no_such_resource()
            if info.verb not in subresource.verbs:
                raise method_not_allowed()
            action: Verb = subresource.action or _VERBS[info.verb]
            return action
        if info.verb not in resource.verbs or (info.verb == "create" and info.name):
            raise method_not_allowed()
        if info.verb == "update" and not info.name:
            raise method_not_allowed()
        return resource.action if info.verb == "create" and resource.action else _VERBS[info.verb]

    async def _non_resource(self, request: Request) -> Reply:
        for answer in (discovery.answer, issuer.answer):
            if (reply := answer(self, request)) is not None:
                return reply
        for slow_answer in (health.answer, openapi.answer, profiling.answer):
            if (reply := await slow_answer(self, request)) is not None:
                return reply
        if request.info.path == "/metrics":
            body, content_type = self.metrics.render(self, self._metric_choice)
            return Reply(200, body=body, content_type=content_type)
        raise PlainNotFound

    def _request(
        self, http: web.BaseRequest, info: RequestInfo, query: Query, body: bytes, user: User, format_: Format
    ) -> Request:
        return Request(http.method, info, query, http.headers, body, user, format_)

    # Answers

    async def _watch(
        self, http: web.BaseRequest, request: Request, resource: Resource, trail: Trail | None
    ) -> web.StreamResponse:
        if "watch" not in resource.verbs:
            raise method_not_allowed()
        asked = request.query.get("resourceVersion")
        named = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 20 else 0
        if named > self.store.revision_of(resource.storage):
            await self.store.catch_up(resource.storage, named)  # another server has told of it
        watch = Watch(self, request, resource)
        response = web.StreamResponse(headers=wire.headers_of(http, watch.content_type))
        response.enable_chunked_encoding()
        if trail is not None:
            await trail.started(200)
        await response.prepare(http)
        self.metrics.watch_started(request.info, resource)
        started = time.perf_counter()
        stop = asyncio.ensure_future(self.stopping.wait())
        pump = asyncio.ensure_future(_pump(watch, http, response, self.options.max_connection_bytes_per_sec))
        try:
            await asyncio.wait((stop, pump), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.metrics.watch_ended(request.info, resource)
            for task in (stop, pump):
                task.cancel()
            results = await asyncio.gather(stop, pump, return_exceptions=True)
        error = results[1]
        if isinstance(error, Exception) and not isinstance(error, ConnectionError):
            _log.error("Watch failed", extra={"path": request.info.path}, exc_info=error)
        seconds = time.perf_counter() - started
        self.metrics.count(request.info, "GET", resource, 200, seconds, 0, "")
        if self.tracing is not None:
            self.tracing.note(http, 200, seconds, "watch", wire.audit_id(http))
        if trail is not None:
            await trail.ended()
        return response


class AuthorizationFailed(Exception):
    """Nobody could decide whether the caller may; the text says why."""


class PlainError(ApiError):
    """What is answered in plain text."""


class PlainNotFound(PlainError):
    """A path that nobody serves: the answer is text, as it is not known whether an API client asks."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def _require_text(http: web.BaseRequest) -> None:
    """Refuse a request whose head is not UTF-8: what it says could be neither told nor stored.

    :raises ApiError: 400.
    """
    try:
        for text in (http.path_qs, *http.headers.values()):
            if not text.isascii():
                text.encode()
    except UnicodeEncodeError:
        raise bad_request("the head of the request is not UTF-8") from None


def _pinned(info: RequestInfo, query: Query) -> RequestInfo:
    """Return what is to be authorized: who lists or watches the one object of a name asks for that object."""
    if info.verb not in ("list", "watch") or info.name or "fieldSelector" not in query:
        return info
    try:
        name = parse_field_selector(query.get("fieldSelector")).pinned("metadata.name")
    except SelectorError:
        return info  # refused by the verb
    return replace(info, name=name) if name and not path_problems(name) else info


async def _pump(watch: Watch, http: web.BaseRequest, response: web.StreamResponse, rate: int) -> None:
    pace = wire.Pace(rate)
    async for frames in watch.frames():
        async for piece in pace.pieces(frames):
            async with wire.patience(http):
                await response.write(piece)


def _negotiate(http: web.BaseRequest, info: RequestInfo, query: Query, resource: Resource | None) -> Format:
    accept = http.headers.get("Accept", "")
    if resource is None:
        return PLAIN
    pretty = query.flag("pretty") if "pretty" in query else wire.wants_pretty(http)
    if accept in ("", "*/*", media.JSON):
        return Format(pretty=True) if pretty else PLAIN
    protobuf = media.PROTOBUF in accept and apiproto.supports(resource.api_version, resource.kind)
    format_ = media.negotiate(accept, watch=info.verb == "watch", protobuf=protobuf)
    if pretty and not format_.pretty:
        return Format(format_.encoding, format_.shape, format_.shape_version, pretty=True)
    return format_


def _timed_out() -> PlainError:
    """Return the answer to a request that took too long: a Status that goes out as text."""
    message = "Timeout: request did not complete within the allotted timeout"
    status = ApiError(504, "Timeout", message, {}).body()
    return PlainError(504, "Timeout", objects.encode({key: status[key] for key in status if key not in _TYPE}).decode())
