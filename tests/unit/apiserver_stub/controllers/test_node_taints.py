"""Tests for the taints that follow from node conditions."""

from __future__ import annotations

from apiserver_stub.controllers.node_taints import wanted_taints


def test_taints_follow_node_conditions():
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    own = {"key": "mine", "effect": "NoSchedule"}
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

    assert wanted_taints({"spec": {"taints": [own, not_ready]}, "status": ready}) == [own]
    assert wanted_taints({"spec": {"taints": [own]}, "status": ready}) is None
    assert wanted_taints({}) == [not_ready]
    cordoned = wanted_taints({"spec": {"unschedulable": True}, "status": ready})
    assert cordoned == [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
