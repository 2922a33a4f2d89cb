"""What a gate takes away is not taken in, and stays where it is stored already."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from apiserver_stub.options import parse
from apiserver_stub.resources import admission, pods
from apiserver_stub.resources.registry import Strategy


def strategy(kind: str, gate: str, on: bool) -> Strategy:
    """Return the rules of *kind* on a server with one gate switched."""
    options = parse([f"--feature-gates={gate}={str(on).lower()}"])
    return next(
        item.strategy for item in (*pods.resources(options), *admission.resources(options)) if item.kind == kind
    )


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


GATED = pod(schedulingGates=[{"name": "later"}])
SIDECAR = pod(initContainers=[{"name": "s", "image": "i", "restartPolicy": "Always"}])
HOOKS = {
    "metadata": {"name": "h"},
    "webhooks": [{"name": "a", "matchConditions": [{"name": "c", "expression": "true"}]}],
}


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize(
    ("kind", "gate", "obj", "field"),
    [
        pytest.param(
            "Pod",
            "PodSchedulingReadiness",
            GATED,
            "schedulingGates",
            marks=pytest.mark.row("gate.PodSchedulingReadiness"),
        ),
        pytest.param("Pod", "SidecarContainers", SIDECAR, "Always", marks=pytest.mark.row("gate.SidecarContainers")),
        *(
            pytest.param(
                f"{word}WebhookConfiguration",
                "AdmissionWebhookMatchConditions",
                HOOKS,
                "matchConditions",
                marks=pytest.mark.row("gate.AdmissionWebhookMatchConditions"),
            )
            for word in ("Mutating", "Validating")
        ),
    ],
)
def test_a_field_is_taken_in_while_its_gate_is_on(
    kind: str, gate: str, obj: dict[str, Any], field: str, on: bool
) -> None:
    rules = strategy(kind, gate, on)
    new, changed, kept = copy.deepcopy(obj), copy.deepcopy(obj), copy.deepcopy(obj)

    rules.prepare_create(new)
    rules.prepare_update(changed, copy.deepcopy(new), "")
    rules.prepare_update(kept, copy.deepcopy(obj), "")

    assert [field in str(found) for found in (new, changed, kept)] == [on, on, True]
