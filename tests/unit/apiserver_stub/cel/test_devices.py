"""Tests for CEL selectors of devices: the variable, versions, quantities and errors."""

from __future__ import annotations

import pytest

from apiserver_stub.cel import CelError
from apiserver_stub.cel.budget import CALL_LIMIT, CallLimitExceeded
from apiserver_stub.cel.devices import check_selector, device_value, selector

DEVICE = {
    "attributes": {
        "model": {"string": "a100"},
        "index": {"int": 2},
        "shared": {"bool": True},
        "version": {"version": "1.10.0-rc.1"},
        "other.example/kind": {"string": "x"},
        "modes": {"strings": ["fast", "slow"]},
    },
    "capacity": {"memory": {"value": "40Gi"}},
}
VALUE = device_value("gpu.example.com", DEVICE)
OWN = 'device.attributes["gpu.example.com"]'


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ('device.driver == "gpu.example.com"', True),
        (f'{OWN}.model == "a100" && {OWN}.index > 1', True),
        (f"{OWN}.shared", True),
        ('device.attributes["other.example"].kind == "y"', False),
        ('"kind" in device.attributes["unknown.example"]', False),
        ('"unknown.example" in device.attributes', False),
        (f'{OWN}.version.isGreaterThan(semver("1.9.0"))', True),
        (f'{OWN}.version.compareTo(semver("1.10.0")) < 0', True),
        (f'{OWN}.version.isLessThan(semver("v1.11", true))', True),
        (f'{OWN}.version.isGreaterThan(semver("1.10.0-rc.1"))', False),
        (f'{OWN}.version.isLessThan(semver("1.10.0-rc.1"))', False),
        (f'{OWN}.version.compareTo(semver("1.10.0-rc.1")) == 0', True),
        (f'{OWN}.version.isLessThan(semver("1.10.0"))', True),
        (f'{OWN}.version.isGreaterThan(semver("1.10.0-1"))', True),
        (f"{OWN}.version.minor() == 10", True),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) == 0', True),
        ('device.capacity["gpu.example.com"].memory.isLessThan(quantity("1Gi"))', False),
        ('isSemver("1.0") || device.allowMultipleAllocations', False),
        ('cel.bind(own, device.attributes["gpu.example.com"], own.index == 2 && own.shared)', True),
        (f'"fast" in {OWN}.modes', True),
        ("true", True),
    ],
)
def test_selector_is_evaluated(text, selected):
    check_selector(text)

    assert selector(text).matches(VALUE) is selected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("device.attributes[", "compilation failed: "),
        ("device.unknown == 1", "undefined field 'unknown'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("1 + 1", "must evaluate to bool or the unknown type, not int"),
    ],
)
def test_invalid_selector_is_rejected(text, error):
    with pytest.raises(CelError) as raised:
        check_selector(text)

    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (f"{OWN}.missing == 1", "no such key: missing"),
        (f"{OWN}.model", "must evaluate to bool"),
        (f'{OWN}.version.compareTo(quantity("1"))  == 0', "no such overload"),
    ],
)
def test_failing_evaluation_is_an_error(text, error):
    with pytest.raises(CelError) as raised:
        selector(text).matches(VALUE)

    assert error in str(raised.value)


def test_evaluation_ends_at_the_cost_limit() -> None:
    text = "device.attributes['d'].modes"
    loops = f"{text}.all(a, {text}.all(b, {text}.all(c, {text}.all(e, a + b + c + e != 'x'))))"
    many = {"attributes": {"modes": {"strings": [f"m{number}" for number in range(60)]}}}

    with pytest.raises(CallLimitExceeded):
        selector(loops).matches(device_value("d", many))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("device.driver == 'd'", 2, 100),
        ("device.attributes['d'].model.matches('^a.*')", 5, 1000),
        ("device.attributes.all(domain, device.attributes[domain].all(name, name.matches('x+')))", 1000, CALL_LIMIT),
        (
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, "
            "a != b && c != d))))",
            CALL_LIMIT + 1,
            1 << 64,
        ),
    ],
)
def test_cost_is_estimated_with_the_limits_of_devices(text: str, least: int, most: int) -> None:
    assert least <= check_selector(text) <= most
