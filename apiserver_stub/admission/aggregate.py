"""Aggregation of error messages, as upstream formats them."""

from __future__ import annotations

from collections.abc import Sequence


def aggregate(messages: Sequence[str]) -> str:
    """Return the distinct *messages* as one: a single message unchanged, several in brackets."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
