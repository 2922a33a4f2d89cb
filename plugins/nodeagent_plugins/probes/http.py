"""HTTP probes: one request per connection, with limits on time and size and no certificate verification."""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote, urljoin, urlsplit

from nodeagent.base.structs import Struct
from nodeagent_plugins.probes.exchange import Header, Response, encode_request, exchange
from nodeagent_plugins.probes.outcome import Outcome, OutcomeKind, ProbeError
from nodeagent_plugins.probes.tcp import USER_AGENT, Connection, dial_error, open_connection

Connect = Callable[[str, int, ssl.SSLContext | None], Awaitable[Connection]]

_MAX_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_SAFE = "/%:?@!$&'()*+,;=~[]"
_PORTS = {"http": 80, "https": 443}
_DEFAULTS = {"user-agent": "User-Agent", "accept": "Accept"}
_PREPARED = 512
"""Requests for the probes of a node of the default size; those of ended pods remain until others replace them."""


async def probe_http(
    url: str,
    headers: Sequence[Header],
    timeout_seconds: float,
    connect: Connect = open_connection,
    *,
    user_agent: str = USER_AGENT,
) -> Outcome:
    """Request *url*: status 200 to 399 is a success; a redirect to another host is not followed and is a warning.

    :raises ProbeError: a header is invalid.
    """
    lines = tuple(request_headers(headers, user_agent))
    first = url
    try:
        async with asyncio.timeout(timeout_seconds):
            for _ in range(_MAX_REDIRECTS):
                response = await _request(_prepared(url, lines), connect)
                target = _redirect(url, response)
                if target is None:
                    return _judge(response)
                url = target
    except TimeoutError:
        return _failed(first, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
    except (ssl.SSLError, ValueError, EOFError) as error:
        return _failed(first, str(error) or type(error).__name__)
    except OSError as error:
        return _failed(first, dial_error(error, urlsplit(url).netloc))
    return _failed(first, f"stopped after {_MAX_REDIRECTS} redirects")


def probe_url(scheme: str, host: str, port: int, path: str) -> str:
    """Return the URL of a probe; *path* can contain a query, needs no leading slash, and its fragment is removed."""
    where = f"[{host}]" if ":" in host else host
    return f"{scheme.lower() or 'http'}://{where}:{port}/{quote(path.partition('#')[0].removeprefix('/'), safe=_SAFE)}"


def request_headers(given: Sequence[Header], user_agent: str = USER_AGENT) -> list[Header]:
    """Return *given* with the default headers added; a default header with an empty value is omitted.

    :raises ProbeError: a header contains a line break.
    """
    names = {name.lower() for name, _ in given}
    headers = [(name, value) for name, value in given if value or name.lower() not in _DEFAULTS]
    for name, value in headers:
        if not name or any(c in name + value for c in "\r\n\0") or any(c in name for c in ": "):
            raise ProbeError(f"invalid HTTP header {name!r}")
    values = {"user-agent": user_agent, "accept": "*/*"}
    return headers + [(default, values[name]) for name, default in _DEFAULTS.items() if name not in names]


class _Request(Struct, frozen=True):
    host: str
    port: int
    secure: bool
    content: bytes


@functools.lru_cache(maxsize=_PREPARED)
def _prepared(url: str, headers: tuple[Header, ...]) -> _Request:
    """Return the request of *url*, which is equal for all attempts of a probe.

    :raises ValueError: the URL or a header is invalid.
    """
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"unsupported protocol scheme {parts.scheme!r}")
    given = {name.lower() for name, _ in headers}
    host = [] if "host" in given else [("Host", parts.netloc)]
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    content = encode_request(target, (*host, *headers, ("Connection", "close")))
    return _Request(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "https", content)


async def _request(request: _Request, connect: Connect) -> Response:
    connection = await connect(request.host, request.port, _unchecked_tls() if request.secure else None)
    try:
        response = await exchange(connection, request.content)
    except BaseException:
        connection.abort()
        raise
    connection.close()
    return response


def _redirect(url: str, response: Response) -> str | None:
    """Return the redirect target if it is on the same host."""
    if response.status not in _REDIRECTS or not response.location:
        return None
    target = urljoin(url, response.location)
    return target if urlsplit(target).hostname == urlsplit(url).hostname else None


def _judge(response: Response) -> Outcome:
    body = response.body.decode("utf-8", "replace")
    if response.status in _REDIRECTS:
        return Outcome(OutcomeKind.WARNING, f"Probe terminated redirects, Response body: {body}")
    if 200 <= response.status < 400:
        return Outcome(OutcomeKind.SUCCESS, body)
    return Outcome(OutcomeKind.FAILURE, f"HTTP probe failed with statuscode: {response.status}")


def _failed(url: str, problem: str) -> Outcome:
    return Outcome(OutcomeKind.FAILURE, f'Get "{url}": {problem}')


@functools.cache
def _unchecked_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
