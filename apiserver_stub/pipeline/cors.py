"""Cross-origin resource sharing (CORS) and HTTP Strict Transport Security (HSTS)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apiserver_stub.transport.http import HttpRequest
from apiserver_stub.transport.rendered import Rendered

_ALLOWED = {
    "Access-Control-Allow-Methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH",
    "Access-Control-Allow-Headers": (
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, "
        "If-Modified-Since"
    ),
    "Access-Control-Expose-Headers": "Date",
    "Access-Control-Allow-Credentials": "true",
}


class CorsAndHsts:
    """Headers for browsers (spec: opt.cors-allowed-origins, opt.strict-transport-security-directives)."""

    def __init__(self, origins: Sequence[str], directives: Sequence[str]) -> None:
        self._origins = [re.compile(origin) for origin in origins]
        self._always = {"Strict-Transport-Security": "; ".join(directives)} if directives else {}

    def begin(self, http: HttpRequest) -> Rendered | None:
        """Set the headers of the response, and return the complete response to a preflight request."""
        headers = dict(self._always)
        origin = http.headers.get("Origin", "")
        allowed = bool(origin) and any(pattern.search(origin) for pattern in self._origins)
        if allowed:
            headers |= {"Access-Control-Allow-Origin": origin, **_ALLOWED}
        http.response_headers = headers
        return Rendered(204, "", []) if allowed and http.method == "OPTIONS" else None
