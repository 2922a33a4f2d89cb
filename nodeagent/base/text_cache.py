"""Cache of functions of texts that clients choose, bounded in number and size. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from nodeagent.base.aging_cache import cleared_cache

LONGEST = 256
"""Characters of the longest text whose result is cached."""

P = ParamSpec("P")
R = TypeVar("R")


def text_cache(most: int) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Cache the results of a function for *most* different calls; those with a long first argument are not cached.

    A cache with a limited number of texts of any length could need as many bytes as clients send. The results are
    dropped by :func:`~nodeagent.base.aging_cache.age_caches`.
    """

    def decorate(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        cached = cleared_cache(most)(function)

        @wraps(function)
        def call(text: str, /, *arguments: P.args, **named: P.kwargs) -> R:
            return (cached if len(text) <= LONGEST else function)(text, *arguments, **named)

        return call

    return decorate
