"""Tests for fields of dynamic resource allocation whose features are disabled."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from apiserver_stub.kinds.disabled_device_fields import (
    drop_from_claim,
    drop_from_claim_status,
    drop_from_class,
    drop_from_slice,
)
from apiserver_stub.options import parse

GATES = (
    "DRAPrioritizedList",
    "DRAAdminAccess",
    "DRADeviceTaints",
    "DRAConsumableCapacity",
    "DRAResourceClaimDeviceStatus",
    "DRADeviceBindingConditions",
    "DRAPartitionableDevices",
    "DRAExtendedResource",
)


def options(*, enabled: bool) -> Any:
    settings = ",".join(f"{gate}={str(enabled).lower()}" for gate in GATES)
    return parse(["--compatibility-version=1.35", f"--feature-gates={settings}"])


ENABLED, DISABLED = options(enabled=True).gates, options(enabled=False).gates


def claim(request: Any = None, constraint: Any = None, *, template: bool = False) -> Any:
    devices = {"requests": [{"name": "r", **(request or {})}], "constraints": [constraint] if constraint else None}
    return {"spec": {"spec": {"devices": devices}} if template else {"devices": devices}}


def status(result: Any = None, device: Any = None) -> Any:
    devices = {"devices": [{"driver": "d", **device}]} if device else {}
    return {"status": {"allocation": {"devices": {"results": [{"request": "r", **(result or {})}]}}, **devices}}


def device(**fields: Any) -> Any:
    return {"spec": {"devices": [{"name": "d", **fields}]}}


CASES = [
    (drop_from_class, {"spec": {"extendedResourceName": "e.com/gpu"}}, {"spec": {}}),
    (drop_from_claim, claim({"firstAvailable": [{"name": "a"}]}), claim()),
    (drop_from_claim, claim({"firstAvailable": [{"name": "a"}]}, template=True), claim(template=True)),
    (drop_from_claim, claim({"exactly": {"adminAccess": True}}), claim({"exactly": {}})),
    (drop_from_claim, claim({"exactly": {"tolerations": []}}), claim({"exactly": {}})),
    (drop_from_claim, claim({"exactly": {"capacity": {}}}), claim({"exactly": {}})),
    (drop_from_claim, claim(constraint={"distinctAttribute": "a"}), claim(constraint={"requests": []})),
    (drop_from_claim_status, status(device={"device": "a"}), status()),
    (drop_from_claim_status, status({"adminAccess": True}), status()),
    (drop_from_claim_status, status({"shareID": "s"}), status()),
    (drop_from_claim_status, status({"consumedCapacity": {}}), status()),
    (drop_from_claim_status, status({"bindingConditions": ["a"]}), status()),
    (drop_from_slice, device(taints=[]), device()),
    (drop_from_slice, {"spec": {"sharedCounters": []}}, {"spec": {}}),
    (drop_from_slice, device(nodeName="n"), device()),
    (drop_from_slice, device(bindsToNode=True), device()),
    (drop_from_slice, device(allowMultipleAllocations=True), device()),
    (drop_from_slice, device(capacity={"a": {"requestPolicy": {}}}), device(capacity={"a": {}})),
]


@pytest.mark.parametrize(("drop", "obj", "without"), CASES)
def test_field_is_dropped_unless_it_is_enabled_or_stored(drop: Any, obj: Any, without: Any) -> None:
    enabled, disabled, stored, added = (deepcopy(obj) for _ in range(4))

    drop(ENABLED, enabled, deepcopy(without))
    drop(DISABLED, disabled, deepcopy(without))
    drop(DISABLED, stored, obj)
    drop(DISABLED, added, {})

    assert (enabled, stored) == (obj, obj)
    assert "constraints" in str(disabled) or disabled == without
    assert disabled == added != obj


@pytest.mark.parametrize("drop", [drop_from_class, drop_from_claim, drop_from_claim_status, drop_from_slice])
@pytest.mark.parametrize("obj", [{}, {"spec": None, "status": None}, {"spec": {"devices": None}}])
def test_objects_without_fields_are_unchanged(drop: Any, obj: Any) -> None:
    new = deepcopy(obj)

    drop(DISABLED, new, deepcopy(obj))

    assert new == obj


def test_only_stored_parts_of_a_gate_are_kept() -> None:
    old, new = device(taints=[]), device(taints=[], nodeName="n")

    drop_from_slice(DISABLED, new, old)

    assert new == device(taints=[])
