"""Tests for the PodTopologyLabels admission plugin."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.admission.plugins.pod_topology_labels import PodTopologyLabels
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

ZONE = "topology.kubernetes.io/zone"


async def test_new_pod_has_the_topology_labels_of_its_node() -> None:
    node = {"metadata": {"labels": {ZONE: "a", "other": "x"}}}
    lister: Any = SimpleNamespace(find=lambda _, name: node if name == "n1" else None)
    labels = []

    for name in ("n1", "n2", ""):
        call = make_call({"metadata": {"labels": {ZONE: "mine"}}, "spec": {"nodeName": name}})
        await PodTopologyLabels(lister, Identity()).admit(call)
        labels.append(call.obj["metadata"]["labels"])

    assert labels == [{ZONE: "a"}, {ZONE: "mine"}, {ZONE: "mine"}]


@pytest.mark.parametrize(
    ("target", "labels"),
    [
        ({"kind": "Node", "name": "n1"}, {ZONE: "a"}),
        ({"kind": "Other", "name": "n1"}, None),
        ({"kind": "Node"}, None),
        (None, None),
    ],
)
async def test_binding_has_the_topology_labels_of_its_node(target: Any, labels: Any) -> None:
    node = {"metadata": {"labels": {ZONE: "a"}}}
    lister: Any = SimpleNamespace(find=lambda _, name: node if name == "n1" else None)
    call = make_call({"metadata": {"name": "p", "labels": None}, "target": target}, subresource="binding")

    await PodTopologyLabels(lister, Identity()).admit(call)

    assert call.obj["metadata"]["labels"] == labels
