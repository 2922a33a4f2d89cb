"""Serialized responses, ready to be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Rendered:
    """Status, headers and body; the body is a list of pieces, so that a long list is in memory only once."""

    code: int
    content_type: str
    pieces: list[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
