"""Restart back-off of containers: 10 s doubling to 300 s, or as configured, by the kubelet's rules. No I/O.

The back-off is stored on each container that is created, so a restarted agent continues it. It delays the next start,
counted from the latest exit that is known when the pod is synced. A container that the same step stops, because a
probe failed, has not exited by then: it starts again without delay if the run before it exited long enough ago. The
back-off ends 600 s after the start that set it, and with a changed spec.
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus
from nodeagent_plugins.pod_sync.labels import ANNOTATION_BACKOFF, number, recorded_hash

INITIAL_SECONDS = 10
MAX_SECONDS = 300
EXPIRY_SECONDS = 2 * MAX_SECONDS
_NANO = 1_000_000_000


class BackoffLimits(Struct, frozen=True):
    """First and longest back-off, in seconds."""

    initial: int = INITIAL_SECONDS
    longest: int = MAX_SECONDS


_DEFAULT = BackoffLimits()
_FAST = BackoffLimits(1, 60)


def backoff_limits(config: NodeAgentConfiguration, gates: FeatureGates) -> BackoffLimits:
    """Return the limits of ``crashLoopBackOff.maxContainerRestartPeriod`` and of the feature gates.

    A configured maximum below the first back-off replaces both.
    """
    limits = _FAST if gates.enabled("ReduceDefaultCrashLoopBackOffDecay") else _DEFAULT
    configured = config.crash_loop_back_off.max_container_restart_period
    if configured is None or not gates.enabled("NodeAgentCrashLoopBackOffMax"):
        return limits
    longest = max(1, int(configured.seconds))
    return BackoffLimits(min(limits.initial, longest), longest)


def current_backoff(
    runs: Sequence[RuntimeContainerStatus], spec_hash: str, now: int, limits: BackoffLimits = _DEFAULT
) -> int:
    """Return the back-off in seconds that counts for the next start, 0 for none.

    :param runs: the runs of the container, latest first.
    :param spec_hash: hash of the spec to start now.
    :param now: nanoseconds since the epoch.
    """
    if not runs or recorded_hash(runs[0]) not in (None, spec_hash) or _expires_in(runs[0], now) <= 0:
        return 0
    last = runs[0]
    stored = number(last.annotations, ANNOTATION_BACKOFF)
    if stored is not None:
        return min(stored, limits.longest)
    # Created by another agent, which does not store it: estimate it from the number of restarts.
    return min(limits.initial << min(last.attempt - 1, 8), limits.longest) if last.attempt > 0 else 0


def remaining(
    runs: Sequence[RuntimeContainerStatus], spec_hash: str, now: int, limits: BackoffLimits = _DEFAULT
) -> float:
    """Return for how many seconds the next start is delayed; 0 if the clock was set back to before the latest exit."""
    backoff, exited = current_backoff(runs, spec_hash, now, limits), _latest_exit(runs)
    if not backoff or exited is None:
        return 0.0
    passed = (now - (exited.finished_at or exited.created_at)) / _NANO
    if passed < 0:
        return 0.0  # Otherwise, each sync would delay the start again until the clock has passed the exit.
    return max(0.0, min(backoff - passed, _expires_in(runs[0], now)))


def next_backoff(
    runs: Sequence[RuntimeContainerStatus], spec_hash: str, now: int, limits: BackoffLimits = _DEFAULT
) -> int:
    """Return the back-off in seconds to store on the container that is created now; 0 for the first of its name."""
    backoff = current_backoff(runs, spec_hash, now, limits)
    if _latest_exit(runs) is None:
        return backoff
    return min(2 * backoff, limits.longest) if backoff else limits.initial


def _latest_exit(runs: Sequence[RuntimeContainerStatus]) -> RuntimeContainerStatus | None:
    return next((run for run in runs if run.state is ContainerState.EXITED), None)


def _expires_in(last: RuntimeContainerStatus, now: int) -> float:
    return EXPIRY_SECONDS - (now - last.created_at) / _NANO
