"""Tests for the validation of device selectors: compilation, and the limit of their cost."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.device_requests import DeviceRules, validate_class
from nodeagent.base.identity import Identity

RULES = DeviceRules(Identity())
LOOP = "device.attributes.all({}, {})"


def spec(expression: str) -> dict[str, object]:
    return {"selectors": [{"cel": {"expression": expression}}]}


def nested(*names: str) -> str:
    expression = "a != b"
    for name in names:
        expression = LOOP.format(name, expression)
    return expression


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("device.driver", "Invalid value"),
        (nested("a", "b", "c", "d", "e"), "Forbidden: too complex, exceeds cost limit"),
    ],
)
def test_unusable_selector_is_rejected_unless_it_is_stored(expression: str, problem: str) -> None:
    (cause,) = validate_class(spec(expression), RULES)

    assert cause.field == "spec.selectors[0].cel.expression"
    assert problem in cause.message
    assert validate_class(spec(expression), RULES, spec(expression)) == []


def test_selector_below_the_limit_is_accepted() -> None:
    assert validate_class(spec(nested("a", "b")), RULES) == []
