"""Rendered responses, ready for the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rendered:
    """Status, headers and body; the body is in pieces, so that a long list is held once."""

    code: int
    content_type: str
    pieces: list[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
