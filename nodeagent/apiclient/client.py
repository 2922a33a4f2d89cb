"""API server client, which implements ``nodeagent.contracts.api.Api``.

Custom, since the Kubernetes packages decode neither protobuf nor into ``msgspec`` structures, which bounds memory.
"""

from __future__ import annotations

import logging
import platform
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import msgspec

from nodeagent import __version__
from nodeagent.apiclient import failures, paths, wire
from nodeagent.apiclient.transport import ConnectionLost, Request, Response, Transport
from nodeagent.base import identity
from nodeagent.base.aio import Clock, TokenBucket
from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.contracts.api import ApiProbe, Listing, PatchType, Resource, WatchEvent, WatchType
from nodeagent.errors import ApiError, ApiGone, ApiUnavailable

DEADLINE_SECONDS = 30.0
PAGE_ITEMS = 500
WATCH_SECONDS = (300, 600)
"""Range of the timeout of a watch; randomized, so that watches do not all expire together."""
_WATCH_SLACK_SECONDS = 30.0
_TRIES = 5
_MAX_PAUSE_SECONDS = 30.0
_LOGGED_WAIT_SECONDS = 0.05
_LONG_WAIT_SECONDS = 1.0
RATE_WAITS = Histogram(
    "rest_client_rate_limiter_duration_seconds",
    "Client side rate limiter latency in seconds. Broken down by verb, and host.",
    ("verb", "host"),
    bounds=(0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0),
    prefixed=False,
)
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Client:
    """Client of one API server; those created with :meth:`with_rate` share its connections.

    Requests and responses are in *content_type* where the kind supports it, else in JSON; patches are always JSON.
    An idempotent request is retried once after a lost connection; after a response with ``Retry-After``, a request is
    retried when that time has passed.
    spec: config.contentType, config.platformAPIQPS, config.platformAPIBurst

    :param qps: sustained requests per second; 0 disables the limit.
    :param burst: maximum burst of requests.
    :param deadline_seconds: time limit of one attempt, without the wait for the rate limit; not for watches.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        *,
        content_type: str = wire.JSON,
        qps: float = 0,
        burst: int = 0,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._transport, self._clock, self._deadline = transport, clock, deadline_seconds
        self._content_type = content_type
        self._bucket = TokenBucket(qps, burst, clock)
        self._agent = f"{identity.current().component}/v{__version__} (linux/{platform.machine()})"

    def with_rate(self, qps: float, burst: int, *, deadline_seconds: float | None = None) -> Client:
        """Return a client with a separate rate limit on the same connections."""
        return Client(
            self._transport,
            self._clock,
            content_type=self._content_type,
            qps=qps,
            burst=burst,
            deadline_seconds=deadline_seconds or self._deadline,
        )

    async def close(self) -> None:
        """Close the connections, also those of the clients that share them."""
        await self._transport.close()

    async def probe(self, deadline_seconds: float) -> ApiProbe:
        try:
            response = await self._transport.request(
                Request("GET", "/version", {"User-Agent": self._agent}), deadline_seconds
            )
        except TimeoutError as error:
            raise ApiUnavailable(f"no response within {deadline_seconds:g} s") from error
        except ConnectionLost as error:
            raise ApiUnavailable(str(error)) from error
        try:
            date = parsedate_to_datetime(response.headers.get("date", ""))
        except ValueError:
            date = None
        return ApiProbe(response.status, date)

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, into: type[T], cached: bool = False
    ) -> T:
        target = paths.target(resource, namespace, name, query={"resourceVersion": "0"} if cached else None)
        return await self._request("GET", _attempt("get", resource, namespace, name), resource, target, into)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        field_selector: str = "",
        label_selector: str = "",
        cached: bool = False,
    ) -> Listing[T]:
        attempt = _attempt("list", resource, namespace)
        query = _selectors(field_selector, label_selector) | {"limit": str(PAGE_ITEMS)}
        page = await self._page(
            attempt, resource, namespace, query | ({"resourceVersion": "0"} if cached else {}), into
        )
        items = page.items
        while page.continue_token:
            try:
                page = await self._page(attempt, resource, namespace, query | {"continue": page.continue_token}, into)
                items = items + page.items
            except ApiGone:  # The continue token has expired: list again without pages.
                query.pop("limit")
                page = await self._page(attempt, resource, namespace, query, into)
                items = page.items
        return Listing(items, page.resource_version)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        into: type[T],
        resource_version: str,
        field_selector: str = "",
        label_selector: str = "",
        patience_seconds: float = 0.0,
    ) -> AsyncIterator[WatchEvent[T]]:
        attempt = _attempt("watch", resource, namespace)
        length = random.randint(*WATCH_SECONDS)  # noqa: S311  (not for security)
        query = _selectors(field_selector, label_selector) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(length),
        }
        target = paths.target(resource, namespace, query=query)
        await self._wait_for_rate("GET", target, patience_seconds)
        request = Request("GET", target, {"Accept": self._accept(resource, ";stream=watch"), "User-Agent": self._agent})
        try:
            async with self._transport.stream(request, self._deadline, length + _WATCH_SLACK_SECONDS) as stream:
                if stream.head.status != 200:
                    raise failures.from_response(attempt, stream.head)
                reader = wire.frame_reader(wire.media_type_of(stream.head.headers))
                async for piece in stream.pieces:
                    for kind, value in reader.feed(piece):
                        if (event := _event(attempt, kind, value, into)) is not None:
                            yield event
        except TimeoutError as error:
            raise ApiUnavailable(f"{attempt}: timed out waiting for data") from error
        except ConnectionLost as error:
            raise ApiUnavailable(f"{attempt}: {error}") from error
        except ValueError as error:
            raise ApiError(f"{attempt}: invalid watch stream: {error}", transient=True) from error

    async def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
        name: str = "",
        decode: bool = True,
    ) -> dict[str, Any]:
        target = paths.target(resource, namespace, name, subresource)
        object_name = name or obj.get("metadata", {}).get("name", "")
        attempt = _attempt("create", resource, namespace, object_name, subresource)
        return await self._send("POST", attempt, target, resource, obj, decode=decode)

    async def update(
        self, resource: Resource, name: str, obj: Mapping[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> dict[str, Any]:
        target = paths.target(resource, namespace, name, subresource)
        return await self._send(
            "PUT", _attempt("update", resource, namespace, name, subresource), target, resource, obj
        )

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any] | Sequence[Any],
        namespace: str = "",
        *,
        subresource: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        decode: bool = True,
    ) -> dict[str, Any]:
        attempt = _attempt("patch", resource, namespace, name, subresource)
        target = paths.target(resource, namespace, name, subresource)
        body = msgspec.json.encode(patch)
        response = await self._exchange("PATCH", attempt, resource, target, body, str(patch_type))
        return _read(attempt, response, dict) if decode else {}

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace_seconds: int | None = None, uid: str = ""
    ) -> None:
        options: dict[str, Any] = {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid:
            options["preconditions"] = {"uid": uid}
        body, content_type = b"", ""
        if options:
            kind = {"apiVersion": "v1", "kind": "DeleteOptions"}
            body, content_type = wire.encode(kind | options, self._content_type)
        attempt = _attempt("delete", resource, namespace, name)
        target = paths.target(resource, namespace, name)
        await self._exchange("DELETE", attempt, resource, target, body, content_type)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", label_selector: str = ""
    ) -> None:
        attempt = _attempt("delete", resource, namespace)
        target = paths.target(resource, namespace, query=_selectors(field_selector, label_selector))
        await self._exchange("DELETE", attempt, resource, target)

    # --- one request --------------------------------------------------------------------------------------

    async def _request(self, method: str, attempt: str, resource: Resource, target: str, into: type[T]) -> T:
        return _read(attempt, await self._exchange(method, attempt, resource, target), into)

    async def _page(
        self, attempt: str, resource: Resource, namespace: str, query: Mapping[str, str], into: type[T]
    ) -> Listing[T]:
        response = await self._exchange("GET", attempt, resource, paths.target(resource, namespace, query=query))
        try:
            page = wire.decode_page(response.body, wire.media_type_of(response.headers), into)
        except ValueError as error:
            raise ApiError(f"{attempt}: invalid response: {error}") from error
        if into is dict:  # The items of a list have no kind.
            for item in page.items:
                item.setdefault("apiVersion", paths.api_version(resource))  # type: ignore[attr-defined]
                item.setdefault("kind", resource.kind)  # type: ignore[attr-defined]
        return page

    async def _send(
        self, method: str, attempt: str, target: str, resource: Resource, obj: Mapping[str, Any], *, decode: bool = True
    ) -> dict[str, Any]:
        complete = {"apiVersion": paths.api_version(resource), "kind": resource.kind, **obj}
        try:
            body, content_type = wire.encode(complete, self._content_type)
        except (ValueError, TypeError) as error:
            raise ApiError(f"{attempt}: cannot encode the object: {error}") from error
        response = await self._exchange(method, attempt, resource, target, body, content_type)
        return _read(attempt, response, dict) if decode else {}

    async def _exchange(
        self, method: str, attempt: str, resource: Resource, target: str, body: bytes = b"", content_type: str = ""
    ) -> Response:
        headers = {"Accept": self._accept(resource), "User-Agent": self._agent}
        if content_type:
            headers["Content-Type"] = content_type
        request = Request(method, target, headers, body)
        repeat = method in _REPEATABLE or (method == "PATCH" and content_type != PatchType.JSON)
        for tries_left in range(_TRIES - 1, -1, -1):
            await self._wait_for_rate(method, target)
            try:
                response = await self._transport.request(request, self._deadline)
            except TimeoutError as error:
                raise ApiUnavailable(f"{attempt}: no response within {self._deadline:g} s") from error
            except ConnectionLost as error:
                if repeat and tries_left:
                    repeat = False
                    continue
                raise ApiUnavailable(f"{attempt}: {error}") from error
            if response.status < 300:
                return response
            pause = _retry_after(response)
            if pause is None or not tries_left:
                raise failures.from_response(attempt, response)
            number, url = _TRIES - tries_left, self._transport.host + target
            _log.debug("Got a Retry-After %gs response for attempt %d to %s", pause, number, url)
            await self._clock.sleep(pause)
        raise AssertionError("unreachable")

    def _accept(self, resource: Resource, parameter: str = "") -> str:
        """Return the accepted media types: JSON, preceded by protobuf if it is configured and supports the kind."""
        if not wire.supports(resource, self._content_type):
            return wire.JSON
        first = f"{self._content_type}{parameter}," if self._content_type != wire.JSON else ""
        return f"{first}{wire.JSON}"

    async def _wait_for_rate(self, method: str, target: str, patience_seconds: float = 0.0) -> None:
        """Wait for the rate limit; a noticeable wait is logged."""
        host, started = self._transport.host, self._clock.now()
        with RATE_WAITS.time(self._clock.now, method, host):
            await self._bucket.take(patience_seconds)
        if (waited := self._clock.now() - started) > _LOGGED_WAIT_SECONDS:
            level = logging.INFO if waited > _LONG_WAIT_SECONDS else v_level(3)
            _log.log(
                level,
                "Waited for %gs due to client-side throttling, not priority and fairness, request: %s:%s",
                waited,
                method,
                host + target,
            )


def _read(attempt: str, response: Response, into: type[T]) -> T:
    try:
        return wire.decode(response.body, wire.media_type_of(response.headers), into)
    except ValueError as error:
        raise ApiError(f"{attempt}: invalid response: {error}") from error


def _event(attempt: str, kind: str, value: Any, into: type[T]) -> WatchEvent[T] | None:
    """Return the event, or ``None`` if it is invalid.

    :raises ApiError: the event reports that the watch failed.
    """
    if kind == "ERROR":
        status = wire.convert(value, failures.Status)
        raise failures.from_status(attempt, status.code, status.reason, status.message)
    try:
        event_type = WatchType(kind)
        version = wire.convert(value, wire.Versioned).metadata.resource_version
        if event_type is WatchType.BOOKMARK:  # It has no other data, and required fields may be null.
            value = {"metadata": {"resourceVersion": version}}
        return WatchEvent(event_type, wire.convert(value, into), version)
    except ValueError as error:
        _log.error("Failed to decode watch event, skipping", extra={"attempt": attempt, "err": str(error)})
        return None


def _selectors(field_selector: str, label_selector: str) -> dict[str, str]:
    both = {"fieldSelector": field_selector, "labelSelector": label_selector}
    return {key: value for key, value in both.items() if value}


def _attempt(verb: str, resource: Resource, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return a description of the request for error messages: ``patch pods/status default/web``."""
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    which = "/".join(part for part in (namespace, name) if part)
    return f"{verb} {what} {which}".rstrip()


def _retry_after(response: Response) -> float | None:
    """Return the seconds after which the server expects a retry, or ``None``."""
    if response.status != 429 and response.status < 500:
        return None
    text = response.headers.get("retry-after", "")
    return min(float(text), _MAX_PAUSE_SECONDS) if text.isascii() and text.isdigit() else None
