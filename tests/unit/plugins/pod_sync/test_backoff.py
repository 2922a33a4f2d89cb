"""Tests for the restart back-off of containers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import NEWEST, OLDEST
from nodeagent.config.features import build_gates
from nodeagent.contracts.configuration import CrashLoopBackOffConfig, NodeAgentConfiguration
from nodeagent.contracts.runtime import ANNOTATION_HASH, ContainerState, RuntimeContainerStatus
from nodeagent_plugins.pod_sync.backoff import (
    BackoffLimits,
    backoff_limits,
    current_backoff,
    next_backoff,
    remaining,
)
from nodeagent_plugins.pod_sync.labels import ANNOTATION_BACKOFF, ANNOTATION_SANDBOX

NANO = 1_000_000_000
HASH = "abcd"
EXITS, KILLED = "exits", "killed by a probe"


def run(
    *, stored: int | None = None, started: int = 995, ended: int | None = 1000, attempt: int = 1, hash: str = HASH
) -> RuntimeContainerStatus:
    annotations = {ANNOTATION_HASH: hash, ANNOTATION_SANDBOX: "s1"}
    if stored is not None:
        annotations[ANNOTATION_BACKOFF] = str(stored)
    return RuntimeContainerStatus(
        id=f"c{attempt}",
        name="main",
        attempt=attempt,
        state=ContainerState.RUNNING if ended is None else ContainerState.EXITED,
        created_at=started * NANO,
        started_at=started * NANO,
        finished_at=(ended or 0) * NANO,
        exit_code=1,
        image="i",
        image_ref="i",
        annotations=annotations,
    )


def starts(first: int, ends: Sequence[tuple[int, str]]) -> list[int]:
    """Return the times at which a container starts whose runs last so many seconds and end so.

    What is known of a run that a probe ends is that it runs; if its next start is delayed, the exit is known then.
    """
    started, stored, times = first, 0, [first]
    known: list[RuntimeContainerStatus] = []
    for attempt, (seconds, end) in enumerate(ends):
        now = started + seconds
        exited = run(stored=stored, started=started, ended=now, attempt=attempt)
        runs = [run(stored=stored, started=started, ended=None, attempt=attempt) if end == KILLED else exited, *known]
        if left := remaining(runs, HASH, now * NANO):
            runs = [exited, *known]
            now += round(remaining(runs, HASH, now * NANO))
            assert left > 0
            assert remaining(runs, HASH, now * NANO) == 0
        stored, known, started = next_backoff(runs, HASH, now * NANO), [exited, *known], now
        times.append(now)
    return times


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param([(5, EXITS)] * 8, [0, 5, 20, 45, 90, 175, 340, 645, 950], id="doubles up to the maximum"),
        pytest.param(
            [(30, KILLED)] * 7, [0, 30, 60, 90, 120, 190, 300, 490], id="time since the exit before counts if killed"
        ),
        pytest.param([(5, KILLED)] * 4, [0, 5, 10, 25, 50], id="killed soon after the exit before"),
        pytest.param([(5, EXITS), (5, EXITS), (601, EXITS), (5, EXITS)], [0, 5, 20, 621, 636], id="resets after 600 s"),
        pytest.param([(5, EXITS), (5, EXITS), (590, EXITS), (5, EXITS)], [0, 5, 20, 620, 635], id="expires in between"),
        pytest.param([(90, KILLED), (5, EXITS), (5, EXITS)], [0, 90, 95, 110], id="first kill sets none"),
    ],
)
def test_start_times_follow_ends_of_runs(ends: list[tuple[int, str]], expected: list[int]) -> None:
    assert starts(0, ends) == expected


def test_first_container_has_no_backoff() -> None:
    assert (remaining([], HASH, 0), next_backoff([], HASH, 0)) == (0, 0)


def test_changed_definition_starts_immediately_and_begins_again() -> None:
    runs = [run(stored=300, hash="old")]

    assert remaining(runs, HASH, 1000 * NANO) == 0
    assert next_backoff(runs, HASH, 1000 * NANO) == 10


def test_restarts_under_another_program_count() -> None:
    assert current_backoff([run(attempt=3)], HASH, 1000 * NANO) == 40


def test_clock_set_back_ends_the_delay() -> None:
    assert remaining([run(stored=20)], HASH, 10 * NANO) == 0


def test_invalid_stored_value_is_limited() -> None:
    assert current_backoff([run(stored=999999)], HASH, 1000 * NANO) == 300


MAX_GATE = "NodeAgentCrashLoopBackOffMax"
FAST_GATE = "ReduceDefaultCrashLoopBackOffDecay"


@pytest.mark.parametrize(
    ("longest", "gates", "limits"),
    [
        ("", [], BackoffLimits(10, 300)),
        ("60s", [MAX_GATE], BackoffLimits(10, 60)),
        ("5s", [MAX_GATE], BackoffLimits(5, 5)),
        ("60s", [], BackoffLimits(10, 300)),
        ("", [FAST_GATE], BackoffLimits(1, 60)),
        ("20s", [FAST_GATE, MAX_GATE], BackoffLimits(1, 20)),
    ],
)
def test_limits_follow_configuration_and_gates(longest: str, gates: list[str], limits: BackoffLimits) -> None:
    period = CrashLoopBackOffConfig(max_container_restart_period=Duration.parse(longest) if longest else None)
    config = NodeAgentConfiguration(crash_loop_back_off=period)

    assert backoff_limits(config, build_gates(dict.fromkeys(gates, True), NEWEST if gates else OLDEST)) == limits


def test_configured_maximum_limits_the_backoff() -> None:
    limits, runs = BackoffLimits(5, 8), [run(stored=5)]

    assert next_backoff(runs, HASH, 1000 * NANO, limits) == 8
    assert current_backoff([run(stored=300)], HASH, 1000 * NANO, limits) == 8
    assert remaining([run(stored=300)], HASH, 1000 * NANO, limits) == 8
    assert next_backoff([run(attempt=0)], HASH, 1000 * NANO, limits) == 5
