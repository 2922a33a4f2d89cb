"""Protocol upgrades: the request is forwarded to the agent, and after a 101 response the connection is a tunnel.

Errors of the agent are returned to the client unchanged. Any other response without the upgrade is an error: a client
that follows a redirect would send its credentials to an address that the agent chose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import ApiError, bad_request
from apiserver_stub.nodes.agents import DialFailed, NotUpgraded, Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.headers import forwarded
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.aio import SystemClock
from nodeagent.base.gointeger import parse_digits
from nodeagent.base.tunnel import End, MalformedResponseHead, Tunnel, is_upgrade

if TYPE_CHECKING:
    from apiserver_stub.nodes.stream import Stream

HEAD_SECONDS = 60.0
_ERROR_SECONDS = 5.0
_MAX_ERROR_BYTES = 64 * 1024


async def upgrade(
    stream: Stream, endpoint: Endpoint, target: str, *, caller: Sequence[tuple[str, str]] = ()
) -> Rendered | None:
    """Connect the client to *target* (path and query) at *endpoint* until either side closes.

    :param caller: header fields that identify the user.
    :raises ApiError: the request is not an upgrade, or *endpoint* does not respond or sends an invalid response.
    """
    http = stream.http
    if not is_upgrade(http):
        raise bad_request("Upgrade request required")
    tunnel = Tunnel(SystemClock())
    agent = End(tunnel)
    try:
        try:
            await stream.agents.connect(lambda: agent, endpoint)
        except Unreachable as error:
            raise DialFailed(error.why) from error
        fields = [*forwarded(http, upgrade=True).items(), *caller]
        lines = [f"{http.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
        agent.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode("utf-8", "surrogateescape"))
        try:
            status, head, rest = await agent.read_head(HEAD_SECONDS)
        except MalformedResponseHead as error:
            raise ApiError(502, "InternalError", f"the server at {endpoint.authority} {error}") from error
        except TimeoutError:
            raise ApiError(504, "Timeout", f"the server at {endpoint.authority} did not respond in time") from None
        if status >= 400:
            return await _error_response(agent, status, head, rest)
        if status != 101:
            raise NotUpgraded(status)
        await stream.begin(101)
        client = End(tunnel)
        http.upgrade(client)
        try:
            client.send(head + rest)
            await tunnel.pass_bytes(agent, client)
        finally:
            client.close()
    finally:
        agent.close()
    return None


async def _error_response(agent: End, status: int, head: bytes, rest: bytes) -> Rendered:
    """Return the response of an agent that rejected the upgrade."""
    fields = {}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get(b"content-length", b"")
    agent.held[:0] = rest
    size = parse_digits(length.decode("latin-1"))
    body = await agent.read_rest(_MAX_ERROR_BYTES if size is None else size, _MAX_ERROR_BYTES, _ERROR_SECONDS)
    kind = fields.get(b"content-type", b"text/plain; charset=utf-8").decode("latin-1")
    retry = fields.get(b"retry-after")
    headers = {"Retry-After": retry.decode("latin-1")} if retry is not None else {}
    return Rendered(status, kind, [body], headers)
