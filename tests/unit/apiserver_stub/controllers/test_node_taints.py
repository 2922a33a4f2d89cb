"""Tests for the taints that follow from node conditions."""

from __future__ import annotations

import pytest

from apiserver_stub.controllers.node_taints import NodeTaints, TaintKeys, desired_taints
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

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


NODES = "core/nodes"
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


async def test_taints_of_a_node_are_written_and_removed(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(NODES, {"metadata": {"name": "a"}, "spec": {"unschedulable": True, "podCIDR": "x"}, "status": READY})
    store.put(NODES, {"metadata": {"name": "healthy"}, "spec": {}, "status": READY})
    store.put(NODES, {"metadata": {"name": "new"}})
    async with running(store, NodeTaints(store, Identity(), clock).run()):  # type: ignore[arg-type]
        await rest(store)
        cordoned, healthy, new = (store.read(NODES, name).get("spec") for name in ("a", "healthy", "new"))
        store.put(NODES, {"metadata": {"name": "a"}, "spec": {**cordoned, "unschedulable": False}, "status": READY})
        await clock.advance(10)
        await rest(store)
        store.before_update = lambda _, key: store.remove(NODES, key) if store.read(NODES, key) else None
        store.put(NODES, {"metadata": {"name": "a"}, "spec": {"unschedulable": True}, "status": READY})
        await clock.advance(10)
        await rest(store)

    assert cordoned == {"unschedulable": True, "podCIDR": "x", "taints": [CORDONED]}
    assert healthy == {}
    assert new == {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}
    assert store.read(NODES, "a") is None
    assert caplog.messages == []


async def test_node_without_taints_has_no_list_of_taints(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NODES, {"metadata": {"name": "a"}, "spec": {"taints": [CORDONED]}, "status": READY})
    async with running(store, NodeTaints(store, Identity(), clock).run()):  # type: ignore[arg-type]
        await rest(store)
    assert store.read(NODES, "a")["spec"] == {}
