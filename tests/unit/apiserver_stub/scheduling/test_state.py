"""Tests for the cluster state: its result does not depend on the order of changes."""

from __future__ import annotations

from apiserver_stub.scheduling.model import read_pod
from apiserver_stub.scheduling.state import ClusterState

from .cluster import make_node, make_pod


def test_pods_of_a_node_added_later_are_counted() -> None:
    state = ClusterState()
    state.assign("default/p", read_pod(make_pod(requests={"cpu": "1"}, nodeName="n1")))
    state.assign("default/q", read_pod(make_pod(requests={"cpu": "1"}, nodeName="n2")))

    assert state.set_node(make_node())

    assert state.nodes["n1"].requested == {"cpu": 1000}


def test_replaced_node_keeps_its_pods() -> None:
    state = ClusterState()
    state.set_node(make_node())
    state.assign("default/p", read_pod(make_pod(requests={"cpu": "1"}, nodeName="n1")))

    assert not state.set_node(make_node())
    assert state.set_node(make_node(unschedulable=True))

    assert list(state.nodes["n1"].pods) == ["default/p"]
    assert state.nodes["n1"].requested == {"cpu": 1000}


def test_changed_pod_is_counted_once() -> None:
    state = ClusterState()
    state.set_node(make_node())
    for cpu in ("1", "2"):
        state.assign("default/p", read_pod(make_pod(requests={"cpu": cpu}, nodeName="n1")))

    assert state.nodes["n1"].requested["cpu"] == 2000
    assert state.release("default/p") is not None
    assert state.release("default/p") is None
    assert state.nodes["n1"].requested["cpu"] == 0
