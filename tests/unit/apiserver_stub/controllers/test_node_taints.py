"""Tests for the taints that follow from node conditions."""

from __future__ import annotations

from apiserver_stub.controllers.node_taints import TaintKeys, desired_taints
from nodeagent.base.identity import Identity

KEYS = TaintKeys.of(Identity())


def test_taints_follow_node_conditions():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    own = {"key": "mine", "effect": "NoSchedule"}
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

    assert desired_taints({"spec": {"taints": [own, not_ready]}, "status": ready}, KEYS) == [own]
    assert desired_taints({"spec": {"taints": [own]}, "status": ready}, KEYS) is None
    assert desired_taints({}, KEYS) == [not_ready]
    cordoned = desired_taints({"spec": {"unschedulable": True}, "status": ready}, KEYS)
    assert cordoned == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
