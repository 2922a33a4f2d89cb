"""Serialized responses, ready to be sent."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from nodeagent.base.structs import Struct


class Rendered(Struct, frozen=True):
    """Status, headers and body; the body is a list of pieces, so that a long list is in memory only once."""

    code: int
    content_type: str
    pieces: list[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
