"""The pause before a container is started again: 10 s doubling to 300 s, counted from the end of its last run.

The pause that follows a run is noted on the container itself when it is made, so a restarted agent goes on where the
one before it stopped. Runs longer than twice the maximum, and a changed spec, begin anew.
"""

from __future__ import annotations

from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent_plugins.pod_sync.records import ANNOTATION_BACKOFF, noted_hash, number

INITIAL_SECONDS = 10
MAX_SECONDS = 300
_FORGET_SECONDS = 2 * MAX_SECONDS
_NANO = 1_000_000_000


def pause_after(last: RuntimeContainerStatus | None, wanted_hash: str, now: int) -> int:
    """Return how many seconds must lie between the end of *last* and the next start.

    :param wanted_hash: hash of the spec to start now.
    :param now: nanoseconds since the epoch, the end of a run whose end is not known.
    """
    if last is None or noted_hash(last) not in (None, wanted_hash):
        return 0
    began = last.started_at or last.created_at
    if _finished_at(last, now) - began > _FORGET_SECONDS * _NANO:
        return 0
    noted = number(last.annotations, ANNOTATION_BACKOFF)
    if noted is not None:
        return min(noted, MAX_SECONDS)
    # Made by a program that leaves no such note: what so many restarts usually have led to.
    return min(INITIAL_SECONDS << min(last.attempt - 1, 8), MAX_SECONDS) if last.attempt > 0 else 0


def remaining(last: RuntimeContainerStatus | None, wanted_hash: str, now: int) -> float:
    """Return how many seconds of the pause are left; never more than the pause, whatever the time of day does."""
    pause = pause_after(last, wanted_hash, now)
    if last is None or not pause:
        return 0.0
    passed = (now - _finished_at(last, now)) / _NANO
    return min(float(pause), max(0.0, pause - passed))


def next_pause(last: RuntimeContainerStatus | None, wanted_hash: str, now: int) -> int:
    """Return the seconds to note on the container that follows *last*; 0 for the first of its kind."""
    if last is None:
        return 0
    pause = pause_after(last, wanted_hash, now)
    return min(2 * pause, MAX_SECONDS) if pause else INITIAL_SECONDS


def _finished_at(last: RuntimeContainerStatus, now: int) -> int:
    if last.finished_at:
        return last.finished_at
    return last.created_at if last.state is ContainerState.EXITED else now
