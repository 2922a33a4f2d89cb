"""Reverse proxy: forwards requests and streams the responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apiserver_stub.apimachinery.status import ApiError, internal
from apiserver_stub.nodes.agents import Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.headers import forwarded, returned
from apiserver_stub.nodes.messages import send_messages
from apiserver_stub.nodes.upgrade import upgrade
from apiserver_stub.transport import response_writer
from apiserver_stub.transport.http import ResponseStream
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.transport.websocket import is_websocket
from nodeagent.base import tracing
from nodeagent.base.tunnel import is_upgrade

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from apiserver_stub.nodes.stream import Stream

_MAX_ERROR_BYTES = 50_000
_REASONS: Mapping[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


async def relay_text(stream: Stream, endpoint: Endpoint, target: str) -> Rendered | None:
    """Respond with the text from *target* at *endpoint* as it arrives, or as WebSocket messages.

    :raises ApiError: 500, *endpoint* does not respond; or the error that it responds with.
    """
    import aiohttp  # Deferred: many modules, not before the first connection to a node.

    async with stream.agents.session(endpoint) as session:
        try:
            url, context = _url(endpoint, target), tracing.outgoing()
            async with session.get(url, headers=context, allow_redirects=False) as upstream:
                if not 200 <= upstream.status <= 206:
                    raise await _backend_error(upstream)
                if is_websocket(stream.http):
                    return await send_messages(stream, upstream.content.iter_any())
                await stream.begin(200)
                headers = response_writer.headers_of(stream.http, "text/plain")
                await _copy(upstream, stream.http.start(200, headers, may_stall=True))
                return None
        except Unreachable as error:
            raise _get_failed(endpoint, target, error.why) from error
        except aiohttp.ClientError as error:
            if stream.started:
                raise ConnectionResetError(str(error)) from error
            raise _get_failed(endpoint, target, str(error) or type(error).__name__) from error


async def relay(
    stream: Stream,
    endpoint: Endpoint,
    target: str,
    prefix: str,
    *,
    caller: Sequence[tuple[str, str]] = (),
    redirects: bool = True,
) -> Rendered | None:
    """Forward the request to *target* at *endpoint* and stream the response.

    :param prefix: path of *endpoint* on this server, for redirects within *endpoint*.
    :param caller: header fields that identify the user.
    :param redirects: return redirects to the client; otherwise they become a 502.
    :raises ApiError: 503, *endpoint* does not respond.
    """
    import aiohttp  # Deferred: see relay_text.

    http = stream.http
    if is_upgrade(http):
        return await upgrade(stream, endpoint, target, caller=caller)
    fields = forwarded(http)
    for name, value in caller:
        fields.add(name, value)
    fields["Host"] = endpoint.authority
    fields["X-Forwarded-Uri"] = http.target.partition("?")[0]
    length = http.headers.get("Content-Length")
    if length is not None:
        fields["Content-Length"] = length
    async with stream.agents.session(endpoint) as session:
        try:
            body = http.body() if http.has_body else None
            async with session.request(
                http.method, _url(endpoint, target), headers=fields, data=body, allow_redirects=False
            ) as upstream:
                if not redirects and _is_redirect(upstream):
                    return _redirect_rejected()
                await stream.begin(upstream.status)
                headers = returned(upstream.headers)
                if location := upstream.headers.get("Location"):
                    headers["Location"] = _rewritten_location(location, endpoint, prefix)
                reason = upstream.reason or ""
                await _copy(upstream, http.start(upstream.status, headers.items(), reason=reason, may_stall=True))
                return None
        except aiohttp.ClientError as error:
            raise _failed(stream, error) from error


async def _copy(upstream: aiohttp.ClientResponse, response: ResponseStream) -> None:
    """Send the body of *upstream* as it arrives."""
    async for piece in upstream.content.iter_any():
        await response.write(piece)
    response.end()


async def _backend_error(upstream: aiohttp.ClientResponse) -> ApiError:
    text = (await upstream.content.read(_MAX_ERROR_BYTES)).decode(errors="replace").strip()
    if upstream.status < 400:
        return internal(f"the node agent responded with the redirect {upstream.status}, which is not followed")
    if upstream.status == 500:
        return internal(text)
    return ApiError(upstream.status, _REASONS.get(upstream.status, ""), text or (upstream.reason or ""))


def _is_redirect(upstream: aiohttp.ClientResponse) -> bool:
    return 300 <= upstream.status <= 399 and bool(upstream.headers.get("Location"))


def _redirect_rejected() -> Rendered:
    """Return the response that replaces a redirect that is not allowed."""
    text = b"the backend attempted to redirect this request, which is not permitted"
    return Rendered(502, "text/plain; charset=utf-8", [text])


def _failed(stream: Stream, error: aiohttp.ClientError) -> Exception:
    """Return the error for a broken connection: a 503, or a closed connection if the response was started."""
    if stream.started:
        return ConnectionResetError(str(error))
    return Unreachable(str(error) or type(error).__name__)


def _get_failed(endpoint: Endpoint, target: str, why: str) -> ApiError:
    return ApiError(500, "", f'Get "{endpoint.origin}{target}": {why}')


def _url(endpoint: Endpoint, target: str) -> URL:
    from yarl import URL  # Deferred: loaded with aiohttp.

    return URL(endpoint.origin + target, encoded=True)


def _rewritten_location(location: str, endpoint: Endpoint, prefix: str) -> str:
    """Return the location of a redirect, with a path on this server if the redirect stays on *endpoint*."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc != endpoint.authority:
        return location
    if not parts.path.startswith("/"):
        return location
    rest = parts._replace(scheme="", netloc="").geturl()
    return prefix + rest
