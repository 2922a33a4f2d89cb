"""Mapping of klog's verbosity to the standard levels.

In Kubernetes, ``V(n)`` grows with detail, and 0 is always logged; the standard levels fall with detail. Therefore
``logger.info`` is V(0), ``logger.debug`` is V(4) (the level for debugging) and all others are logged with
``logger.log(v_level(2), …)``.
"""

from __future__ import annotations

import logging

DEBUG_VERBOSITY = 4
MAX_VERBOSITY = 2**31 - 1


def v_level(verbosity: int) -> int:
    """Return the standard level of ``V(verbosity)``; all from V(13) on share the lowest level."""
    if verbosity < DEBUG_VERBOSITY:
        return logging.INFO - max(0, verbosity)
    return max(1, logging.DEBUG - (verbosity - DEBUG_VERBOSITY))


def verbosity_of(level: int) -> int:
    """Return the ``n`` of the ``V(n)`` that corresponds to *level*; 0 for information and above."""
    if level > logging.DEBUG:
        return max(0, min(DEBUG_VERBOSITY - 1, logging.INFO - level))
    return DEBUG_VERBOSITY + logging.DEBUG - level


def verbose(logger: logging.Logger, verbosity: int) -> bool:
    """Return whether a ``V(verbosity)`` message may be logged, to avoid generating an expensive one.

    With per-file thresholds the result may be true for a message that is then discarded.
    """
    return logger.isEnabledFor(v_level(verbosity))
