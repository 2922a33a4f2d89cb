"""Time limits of async hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEADLINE_SECONDS = 10.0
"""Time limit of a call of an async hook without ``nodeagent.deadline``."""


def deadline_of(specification: Callable[..., Any]) -> float:
    """Return the time limit in seconds of each call of an async hook."""
    return getattr(specification, "deadline_seconds", DEADLINE_SECONDS)
