"""Tests for result thresholds."""

from __future__ import annotations

from nodeagent.contracts.probes import ProbeResult
from nodeagent.model.pod import Probe
from nodeagent_plugins.probes.outcome import Streak

GOOD, BAD = ProbeResult.SUCCESS, ProbeResult.FAILURE


def test_result_is_effective_from_the_threshold_on() -> None:
    streak, probe = Streak(), Probe(success_threshold=2, failure_threshold=3)

    counted = [streak.add(result, probe) for result in (BAD, BAD, GOOD, GOOD, GOOD, BAD, BAD, BAD, BAD)]

    assert counted == [False, False, False, True, True, False, False, True, True]
