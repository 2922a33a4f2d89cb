"""Way of requests to a server, directly or through an HTTP proxy. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

from nodeagent.base.structs import Struct


class Route(Struct, frozen=True):
    """Way to a server: its base URL, and the URL of a proxy, empty for a direct connection."""

    server: SplitResult
    proxy: SplitResult

    @property
    def host(self) -> str:
        """Value of the ``Host`` header."""
        return self.server.netloc.rpartition("@")[2]

    @property
    def is_forwarded(self) -> bool:
        """True if the proxy receives the requests, instead of a tunnel to the server."""
        return bool(self.proxy.netloc) and self.server.scheme == "http"

    def target(self, target: str) -> str:
        """Return the request target for *target*, which is relative to the base URL."""
        path = f"{self.server.path}{target}"
        return f"{self.server.scheme}://{self.host}{path}" if self.is_forwarded else path

    def headers(self) -> Mapping[str, str]:
        """Return the headers that each request requires."""
        host = {"Host": self.host}
        return {**host, **self.proxy_headers()} if self.is_forwarded else host

    def proxy_headers(self) -> Mapping[str, str]:
        """Return the headers that the proxy requires."""
        if self.proxy.username is None:
            return {}
        pair = f"{unquote(self.proxy.username)}:{unquote(self.proxy.password or '')}".encode()
        return {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def route(server: str, proxy: str) -> Route:
    """Return the way to the base URL *server* through the URL *proxy*, empty for none."""
    return Route(urlsplit(server), urlsplit(proxy))
