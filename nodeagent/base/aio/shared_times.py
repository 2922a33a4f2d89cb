"""Times that periodic work shares, so that an idle process is interrupted once for all of it. No I/O."""

from __future__ import annotations

SHARED_SECONDS = 5.0
"""Usual interval of the shared times."""
RUNTIME_SECONDS = 10.0
"""Interval of the times at which an idle agent calls the container runtime: after each call, threads of gRPC poll for
seconds."""
_ROUNDING_SECONDS = 0.001


def until_shared(now: float, seconds: float, interval: float = SHARED_SECONDS) -> float:
    """Return the pause until the last shared time in the next *seconds*; *seconds* if there is none.

    :param interval: interval of the shared times, in seconds.
    """
    due = now + seconds + _ROUNDING_SECONDS
    pause = due - due % interval - now
    return pause if pause > _ROUNDING_SECONDS else seconds
