"""Tests for binding conditions: the state of a claim by the reports of the driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver_stub.scheduling.binding_conditions import TIMEOUT, BindingState, binding_state

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DEVICE = {"driver": "d", "pool": "p", "device": "a"}
RESULT = {**DEVICE, "bindingConditions": ["ready", "attached"], "bindingFailureConditions": ["broken"]}


def claim(*conditions: tuple[str, str], result: dict[str, Any] = RESULT, **device: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": status} for kind, status in conditions]
    allocation = {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T12:00:00Z"}
    devices = [{**DEVICE, **device, "conditions": listed}] if conditions else []
    return {"status": {"allocation": allocation, "devices": devices}}


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (claim(result=DEVICE), BindingState.READY),
        (claim(), BindingState.WAITING),
        (claim(("ready", "True")), BindingState.WAITING),
        (claim(("ready", "True"), ("attached", "False")), BindingState.WAITING),
        (claim(("ready", "True"), ("attached", "True")), BindingState.READY),
        (claim(("ready", "True"), ("attached", "True"), ("broken", "True")), BindingState.FAILED),
        (claim(("broken", "False")), BindingState.WAITING),
        (claim(("ready", "True"), ("attached", "True"), device="b"), BindingState.WAITING),
    ],
)
def test_state_follows_the_conditions_of_the_device(found, state):
    assert binding_state(found, NOW) is state


def test_missing_condition_fails_after_the_time_limit():
    found = claim(("ready", "True"))

    assert binding_state(found, NOW + TIMEOUT - timedelta(seconds=1)) is BindingState.WAITING
    assert binding_state(found, NOW + TIMEOUT) is BindingState.FAILED
