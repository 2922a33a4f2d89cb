"""Tests for the validation of device requests and of the configurations for drivers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.device_requests import (
    DeviceRules,
    validate_class,
    validate_configuration,
    validate_devices,
    validate_toleration,
)
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.validation.pods import found

RULES = DeviceRules(Identity())
LIMIT = 10 << 10


def opaque(parameters: Any, driver: str = "a.example.com") -> dict[str, Any]:
    return {"opaque": {"driver": driver, "parameters": parameters}}


def of_length(length: int) -> dict[str, str]:
    """Return an object whose JSON form has *length* bytes."""
    return {"a": "x" * (length - len('{"a":""}'))}


@pytest.mark.parametrize(
    ("config", "stored", "expected"),
    [
        ({}, False, ["Required f.opaque"]),
        (opaque({}), False, []),
        (opaque({}, ""), False, ["Required f.opaque.driver"]),
        (opaque(None), False, ["Required f.opaque.parameters"]),
        (opaque([]), False, ["Invalid f.opaque.parameters"]),
        (opaque(of_length(LIMIT)), False, []),
        (opaque(of_length(LIMIT + 1)), False, ["TooLong f.opaque.parameters"]),
        (opaque(of_length(LIMIT + 1)), True, []),
    ],
)
def test_configuration_is_an_object_of_limited_length(config: Any, *, stored: bool, expected: list[str]) -> None:
    assert found(validate_configuration(config, "f", stored=stored)) == expected


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "a", "operator": "Exists", "value": "b"}, ["Invalid f.value"]),
        ({"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}, []),
        ({"key": "a b", "operator": "Equal", "value": "b c"}, ["Invalid f.key", "Invalid f.value"]),
        ({}, ["Required f.operator"]),
        ({"operator": "Is"}, ["NotSupported f.operator"]),
        ({"operator": "Exists", "effect": "PreferNoSchedule"}, ["NotSupported f.effect"]),
    ],
)
def test_toleration_is_validated(toleration: Any, expected: list[str]) -> None:
    assert found(validate_toleration(toleration, "f")) == expected


EXACT = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"exactly": EXACT}, []),
        ({}, ["Required {}"]),
        ({"exactly": EXACT, "firstAvailable": [{"name": "b", **EXACT}]}, ["Invalid {}"]),
        ({"firstAvailable": [{"name": "b", **EXACT}]}, []),
        (
            {"firstAvailable": [{"name": "b", **EXACT}, {"name": "b", **EXACT}]},
            ["Duplicate {}.firstAvailable[1]"],
        ),
        ({"exactly": {**EXACT, "count": 0}}, ["Invalid {}.exactly.count"]),
        ({"exactly": {**EXACT, "allocationMode": "All"}}, ["Invalid {}.exactly.count"]),
        ({"exactly": {**EXACT, "allocationMode": "All", "count": 0}}, []),
        ({"exactly": {**EXACT, "allocationMode": "Some"}}, ["NotSupported {}.exactly.allocationMode"]),
        ({"exactly": {**EXACT, "deviceClassName": ""}}, ["Required {}.exactly.deviceClassName"]),
        ({"exactly": {**EXACT, "selectors": [{}]}}, ["Required {}.exactly.selectors[0].cel"]),
        (
            {"exactly": {**EXACT, "selectors": [{"cel": {"expression": "1"}}]}},
            ["Invalid {}.exactly.selectors[0].cel.expression"],
        ),
    ],
)
def test_request_is_validated(request_: Any, expected: list[str]) -> None:
    causes = validate_devices({"requests": [{"name": "a", **request_}]}, "devices", RULES)

    assert found(causes) == [text.format("devices.requests[0]") for text in expected]


@pytest.mark.parametrize(
    ("constraint", "consumable", "expected"),
    [
        ({"matchAttribute": "a/b"}, False, []),
        ({"matchAttribute": "b"}, False, ["Invalid {}.matchAttribute"]),
        ({"distinctAttribute": "a/b"}, True, []),
        ({}, False, ["Required {}.matchAttribute"]),
        ({}, True, ["Required {}"]),
        ({"matchAttribute": "a/b", "requests": ["a"]}, False, []),
        ({"matchAttribute": "a/b", "requests": ["c"]}, False, ["Invalid {}.requests[0]"]),
    ],
)
def test_constraint_names_one_attribute(constraint: Any, *, consumable: bool, expected: list[str]) -> None:
    devices = {"requests": [{"name": "a", "exactly": EXACT}], "constraints": [constraint]}

    causes = validate_devices(devices, "devices", DeviceRules(Identity(), consumable_capacity=consumable))

    assert found(causes) == [text.format("devices.constraints[0]") for text in expected]


def test_stored_expressions_of_a_class_are_not_compiled_again() -> None:
    spec: dict[str, Any] = {"selectors": [{"cel": {"expression": "1"}}], "config": [opaque(of_length(LIMIT + 1))]}
    expressions = ["Invalid spec.selectors[0].cel.expression"]
    parameters = ["TooLong spec.config[0].opaque.parameters"]

    assert found(validate_class(spec, RULES)) == expressions + parameters
    assert found(validate_class(spec, RULES, spec)) == []
    assert found(validate_class(spec, RULES, {**spec, "selectors": []})) == expressions
    assert found(validate_class(spec, RULES, {**spec, "config": []})) == parameters


@pytest.mark.parametrize(("length", "expected"), [(LIMIT, ["Invalid"]), (LIMIT + 1, ["TooLong"])])
def test_expression_has_a_limited_length(length: int, expected: list[str]) -> None:
    spec = {"selectors": [{"cel": {"expression": "1".ljust(length)}}]}

    assert found(validate_class(spec, RULES)) == [f"{reason} spec.selectors[0].cel.expression" for reason in expected]


@pytest.mark.parametrize(
    ("name", "expected"), [("example.com/gpu", []), ("cpu", ["Invalid spec.extendedResourceName"]), (None, [])]
)
def test_extended_resource_of_a_class_is_validated(name: str | None, expected: list[str]) -> None:
    assert found(validate_class({} if name is None else {"extendedResourceName": name}, RULES)) == expected
