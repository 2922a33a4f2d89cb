"""Tests for taints of devices: rules that add them, and tolerations."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling.device_taints import repels, with_rules

TAINT = {"key": "broken", "value": "fan", "effect": "NoExecute"}


def rule(**selector: str) -> dict[str, Any]:
    return {"spec": {"deviceSelector": selector, "taint": TAINT}}


@pytest.mark.parametrize(
    ("rules", "tainted"),
    [
        ([], []),
        ([rule()], ["a", "b"]),
        ([rule(driver="d", pool="p", device="b")], ["b"]),
        ([rule(driver="other")], []),
        ([rule(pool="other", device="a")], []),
        ([{"spec": {"taint": TAINT}}], []),
    ],
)
def test_rule_taints_the_devices_that_it_selects(rules, tainted):
    own = {"key": "own", "effect": "None"}
    devices = [{"name": "a", "taints": [own]}, {"name": "b"}]
    slices = [{"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": {"name": "p"}, "devices": devices}}]

    (found,) = with_rules(slices, rules)

    assert [item["name"] for item in found["spec"]["devices"] if TAINT in item.get("taints", ())] == tainted
    assert own in found["spec"]["devices"][0]["taints"]
    assert devices[0]["taints"] == [own]


@pytest.mark.parametrize(
    ("toleration", "repelled"),
    [
        ({"operator": "Exists"}, False),
        ({"operator": "Exists", "key": "broken", "effect": "NoExecute"}, False),
        ({"operator": "Equal", "key": "broken", "value": "fan"}, False),
        ({"operator": "Equal", "key": "broken", "value": "coil"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
    ],
)
def test_toleration_must_match_the_taint(toleration, repelled):
    assert repels(TAINT, [toleration]) is repelled
