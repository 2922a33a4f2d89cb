"""Sub-protocols of WebSocket requests, without the one that carries a browser's bearer token."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base import identity


def sub_protocols(headers: Mapping[str, str]) -> list[str]:
    """Return the sub-protocols that a WebSocket client offers, without the one that carries the bearer token."""
    names = (name.strip() for name in headers.get("Sec-WebSocket-Protocol", "").split(","))
    return [name for name in names if name and not name.startswith(token_prefix())]


def token_prefix() -> str:
    """Return the prefix of the sub-protocol that carries a bearer token."""
    return f"base64url.bearer.{identity.current().group('authorization')}."
