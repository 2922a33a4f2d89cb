"""Requests that become a tunnel: the head goes on to the agent, and once it says 101, bytes pass both ways.

A redirect is never followed: any answer but 101 is the client's answer, unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from apiserver_stub.apimachinery.status import ApiError, bad_request
from apiserver_stub.nodes.agents import DialFailed, Endpoint, Unreachable
from apiserver_stub.nodes.headers import forwarded
from nodeagent.base.aio import SystemClock
from nodeagent.base.tunnel import ConnectionHijacked, End, MalformedResponseHead, Tunnel, hijack, is_upgrade

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream

HEAD_SECONDS = 60.0
_REFUSAL_SECONDS = 5.0
_MAX_REFUSAL_BYTES = 64 * 1024


async def upgrade(
    stream: Stream, place: Endpoint, target: str, *, caller: Sequence[tuple[str, str]] = (), redirects: bool = True
) -> web.StreamResponse:
    """Join the client to *place*, where *target* (path and query) answers; return what ends the request.

    :param caller: header fields that tell for whom.
    :param redirects: whether the client may be told to go elsewhere; it is told 502 otherwise.
    :raises ApiError: the client asks for no upgrade, nobody answers there, or not as HTTP does.
    """
    http = stream.http
    if not is_upgrade(http):
        raise bad_request("Upgrade request required")
    tunnel = Tunnel(SystemClock())
    agent = End(tunnel)
    try:
        try:
            await stream.agents.connect(lambda: agent, place)
        except Unreachable as error:
            raise DialFailed(error.why) from error
        lines = [f"{http.method} {target} HTTP/1.1".encode()]
        lines += [name + b": " + value for name, value in forwarded(http, upgrade=True)]
        lines += [f"{name}: {value}".encode() for name, value in caller]
        agent.send(b"\r\n".join(lines) + b"\r\n\r\n")
        try:
            status, head, rest = await agent.read_head(HEAD_SECONDS)
        except MalformedResponseHead as error:
            raise ApiError(502, "InternalError", f"the server at {place.authority} {error}") from error
        except TimeoutError:
            raise ApiError(504, "Timeout", f"the server at {place.authority} gave no answer") from None
        if status != 101:
            refusal = await _refusal(agent, status, head, rest)
            moved = is_redirect(status, refusal.headers.get("Location"))
            return redirect_refused() if moved and not redirects else refusal
        await stream.begin(101)
        client = hijack(http, tunnel)
        try:
            client.send(head + rest)
            await tunnel.pass_bytes(agent, client)
        finally:
            client.close()
    finally:
        agent.close()
    return ConnectionHijacked(status=101)


def is_redirect(status: int, location: str | None) -> bool:
    """Return whether an answer sends the client elsewhere."""
    return 300 <= status <= 399 and bool(location)


def redirect_refused() -> web.Response:
    """Return the answer in place of a redirect that is not passed on."""
    text = b"the backend attempted to redirect this request, which is not permitted"
    return web.Response(status=502, body=text, headers={"Content-Type": "text/plain; charset=utf-8"})


async def _refusal(agent: End, status: int, head: bytes, rest: bytes) -> web.StreamResponse:
    """Return the answer of an agent that did not open the way."""
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get(b"content-length", b"")
    agent.held[:0] = rest
    size = int(length) if length.isdigit() else _MAX_REFUSAL_BYTES
    body = await agent.read_rest(size, _MAX_REFUSAL_BYTES, _REFUSAL_SECONDS)
    kind = fields.get(b"content-type", b"text/plain; charset=utf-8").decode("latin-1")
    answer = web.Response(status=status, body=body, headers={"Content-Type": kind})
    for name in (b"location", b"retry-after"):
        if name in fields:
            answer.headers[name.decode().title()] = fields[name].decode("latin-1")
    return answer
