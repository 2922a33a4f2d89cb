"""Verbosity on top of the standard levels.

The field speaks of ``V(n)``: the higher, the more detail, 0 always shown. The standard library speaks of levels that
fall with detail. Both meet here, so that ``logger.info`` is V(0), ``logger.debug`` is V(4) (the level for debugging)
and what lies between and beyond is reached with ``logger.log(v_level(2), …)``.
"""

from __future__ import annotations

import logging

DEBUG_VERBOSITY = 4
MAX_VERBOSITY = 2**31 - 1


def v_level(verbosity: int) -> int:
    """Return the standard level of ``V(verbosity)``; from V(13) on all share the lowest level."""
    if verbosity < DEBUG_VERBOSITY:
        return logging.INFO - max(0, verbosity)
    return max(1, logging.DEBUG - (verbosity - DEBUG_VERBOSITY))


def verbosity_of(level: int) -> int:
    """Return the ``n`` of the ``V(n)`` that *level* stands for; 0 for information and above."""
    if level > logging.DEBUG:
        return max(0, min(DEBUG_VERBOSITY - 1, logging.INFO - level))
    return DEBUG_VERBOSITY + logging.DEBUG - level


def verbose(logger: logging.Logger, verbosity: int) -> bool:
    """Tell cheaply whether a ``V(verbosity)`` message may be shown, before an expensive one is put together.

    While per-file thresholds are set the answer may be yes for a message that is left out afterwards.
    """
    return logger.isEnabledFor(v_level(verbosity))
