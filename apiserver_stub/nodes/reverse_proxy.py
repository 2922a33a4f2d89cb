"""Requests that are passed on, and answers that are passed back as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from apiserver_stub.apimachinery.status import ApiError, internal
from apiserver_stub.nodes.agents import Endpoint, Unreachable
from apiserver_stub.nodes.headers import as_fields, forwarded, returned
from apiserver_stub.nodes.messages import is_websocket, send_messages
from apiserver_stub.nodes.upgrade import is_redirect, redirect_refused, upgrade
from apiserver_stub.transport import response_writer
from nodeagent.base.tunnel import is_upgrade

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream

_MAX_COMPLAINT_BYTES = 50_000
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


async def relay_text(stream: Stream, place: Endpoint, target: str) -> web.StreamResponse:
    """Respond with the text that *place* has at *target*, as it arrives, or as messages of a WebSocket.

    :raises ApiError: 500, *place* does not respond; or the error that it responds with.
    """
    async with stream.agents.session(place) as session:
        try:
            async with session.get(_url(place, target), allow_redirects=False) as found:
                if not 200 <= found.status <= 206:
                    raise await _complaint(found)
                if is_websocket(stream.http):
                    return await send_messages(stream, found.content.iter_any())
                await stream.begin(200)
                response = web.StreamResponse(headers=response_writer.headers_of(stream.http, "text/plain"))
                return await _pass_on(stream, found, response)
        except Unreachable as error:
            raise _get_failed(place, target, error.why) from error
        except aiohttp.ClientError as error:
            if stream.begun:
                raise ConnectionResetError(str(error)) from error
            raise _get_failed(place, target, str(error) or type(error).__name__) from error


async def relay(
    stream: Stream,
    place: Endpoint,
    target: str,
    prefix: str,
    *,
    caller: Sequence[tuple[str, str]] = (),
    redirects: bool = True,
) -> web.StreamResponse:
    """Pass the whole request on to *target* at *place* and the whole answer back.

    :param prefix: where *place* is found on this server, for redirects that lead to itself.
    :param caller: header fields that tell for whom.
    :param redirects: whether the client may be told to go elsewhere; it is told 502 otherwise.
    :raises ApiError: nobody answers there.
    """
    http = stream.http
    if is_upgrade(http):
        return await upgrade(stream, place, target, caller=caller, redirects=redirects)
    fields = as_fields(forwarded(http))
    for name, value in caller:
        fields.add(name, value)
    fields["Host"] = place.authority
    fields["X-Forwarded-Uri"] = http.path_qs.partition("?")[0]
    length = http.headers.get("Content-Length")
    if length is not None:
        fields["Content-Length"] = length
    async with stream.agents.session(place) as session:
        try:
            body = http.content if http.can_read_body else None
            async with session.request(
                http.method, _url(place, target), headers=fields, data=body, allow_redirects=False
            ) as found:
                if not redirects and is_redirect(found.status, found.headers.get("Location")):
                    return redirect_refused()
                await stream.begin(found.status)
                response = web.StreamResponse(
                    status=found.status, reason=found.reason or None, headers=returned(found.headers)
                )
                if location := found.headers.get("Location"):
                    response.headers["Location"] = _seen_from_here(location, place, prefix)
                return await _pass_on(stream, found, response)
        except aiohttp.ClientError as error:
            raise _failed(stream, error) from error


async def _pass_on(stream: Stream, found: aiohttp.ClientResponse, response: web.StreamResponse) -> web.StreamResponse:
    if "Content-Length" not in response.headers:
        if stream.http.version >= (1, 1):
            response.enable_chunked_encoding()
        else:
            response.force_close()
    await response.prepare(stream.http)
    async for piece in found.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


async def _complaint(found: aiohttp.ClientResponse) -> ApiError:
    text = (await found.content.read(_MAX_COMPLAINT_BYTES)).decode(errors="replace").strip()
    if found.status < 400:
        return internal(f"the node agent answered {found.status}, which is not followed")
    if found.status == 500:
        return internal(text)
    return ApiError(found.status, _REASONS.get(found.status, ""), text or (found.reason or ""))


def _failed(stream: Stream, error: aiohttp.ClientError) -> Exception:
    """Return what becomes of a broken connection: an answer, or the end of the one that has begun."""
    if stream.begun:
        return ConnectionResetError(str(error))
    return Unreachable(str(error) or type(error).__name__)


def _get_failed(place: Endpoint, target: str, why: str) -> ApiError:
    return ApiError(500, "", f'Get "{place.origin}{target}": {why}')


def _url(place: Endpoint, target: str) -> URL:
    return URL(place.origin + target, encoded=True)


def _seen_from_here(location: str, place: Endpoint, prefix: str) -> str:
    """Return where a redirect leads for the client, if it stays on *place*."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc != place.authority:
        return location
    if not parts.path.startswith("/"):
        return location
    rest = parts._replace(scheme="", netloc="").geturl()
    return prefix + rest
