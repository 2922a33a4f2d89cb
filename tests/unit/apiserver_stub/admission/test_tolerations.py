"""Tests for coverage and merging of tolerations."""

from __future__ import annotations

from apiserver_stub.admission.tolerations import covers, merged


def test_toleration_covers_equal_or_narrower_tolerations():
    everything, team = {"operator": "Exists"}, {"key": "team", "value": "a", "effect": "NoSchedule"}
    short = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}

    assert covers(everything, team)
    assert not covers(team, everything)
    assert not covers(short, {**short, "tolerationSeconds": 6})
    assert not covers(short, {"key": "k", "operator": "Exists", "effect": "NoExecute"})
    assert merged([team, short], [everything, team]) == [everything]
    assert merged([team], [team]) == [team]
