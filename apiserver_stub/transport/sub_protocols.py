"""Sub-protocols of WebSocket requests, without the one that carries a browser's bearer token."""

from __future__ import annotations

from collections.abc import Mapping

BEARER_PROTOCOL = "base64url.bearer.authorization."
"""Prefix of the sub-protocol that carries a bearer token; the domain of API groups and the token follow."""


def sub_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the sub-protocols that a WebSocket client offers, without the one that carries the bearer token."""
    names = (name.strip() for name in headers.get("Sec-WebSocket-Protocol", "").split(","))
    return [name for name in names if name and not name.startswith(BEARER_PROTOCOL)]
