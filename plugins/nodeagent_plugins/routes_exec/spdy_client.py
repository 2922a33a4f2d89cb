"""SPDY connections to the runtime's streaming endpoint, for clients that use WebSockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

from nodeagent.base.spdy_streams import SpdyConnection, UpgradeFailed, upgrade

CONNECT_SECONDS = 10.0
_PEER = "the runtime's streaming endpoint"


async def open_spdy(url: str, protocols: Sequence[str]) -> SpdyConnection:
    """Connect to *url*, upgrade to SPDY/3.1 and offer *protocols*; redirects are not followed.

    :raises UpgradeFailed: the endpoint is unreachable, is not on this host, or rejects the upgrade.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise UpgradeFailed(502, f"{_PEER} is not plain HTTP on this host")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    except (OSError, TimeoutError) as error:
        raise UpgradeFailed(502, f"{_PEER} is unreachable: {error}") from error
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    return await upgrade(reader, writer, [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}"], protocols, _PEER)
