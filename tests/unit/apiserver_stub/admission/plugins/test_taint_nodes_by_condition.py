"""Tests for the TaintNodesByCondition admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.taint_nodes_by_condition import TaintNodesByCondition
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
EXECUTE, OTHER = {**TAINT, "effect": "NoExecute"}, {**TAINT, "key": "other"}


@pytest.mark.parametrize(
    ("spec", "taints"),
    [
        (None, [TAINT]),
        ({"taints": [OTHER]}, [OTHER, TAINT]),
        ({"taints": [EXECUTE]}, [EXECUTE, TAINT]),
        ({"taints": [{**TAINT, "value": "x"}]}, [{**TAINT, "value": "x"}]),
    ],
    ids=["no spec", "another key", "another effect", "present"],
)
@pytest.mark.row("admission.TaintNodesByCondition")
async def test_new_node_has_the_taint_not_ready_once(spec: Any, taints: list[Any]) -> None:
    node = {"metadata": {"name": "n"}, "spec": spec}

    await TaintNodesByCondition(Identity()).admit(make_call(node))

    assert node["spec"]["taints"] == taints
