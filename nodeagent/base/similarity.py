"""Similar names, for suggestions in error messages. No I/O."""

from __future__ import annotations

from collections.abc import Iterable


def most_similar(name: str, known: Iterable[str], cutoff: float) -> str:
    """Return the name in *known* that is most similar to *name*; empty if none reaches *cutoff*, between 0 and 1."""
    import difflib  # Only needed for mistakes; an agent without any saves its memory.

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), "")


def similarity(first: str, second: str) -> float:
    """Return the similarity of two texts, between 0 and 1."""
    import difflib

    return difflib.SequenceMatcher(None, first, second).ratio()
