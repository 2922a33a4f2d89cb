"""CEL expressions, and JSON paths of custom resources."""

from __future__ import annotations

from typing import Any

from apiserver_stub.cel import CelError, admission, devices
from apiserver_stub.cel.budget import Budget
from apiserver_stub.kinds import json_paths
from apiserver_stub.validation.jsonpath import jsonpath_problem
from tests.fuzz.target import target

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"a": "b"}},
    "spec": {"replicas": 3, "items": [1, 2.5, "c", True, None]},
}
CEL = (
    b"object.",
    b".all(x, ",
    b".map(x, ",
    b".exists(",
    b"has(",
    b"size(",
    b" == ",
    b" && ",
    b"quantity('1')",
    b"ip('::1')",
    b"url('http://a')",
    b".matches('(a+)+')",
    b".format([",
    b"duration('1h')",
    b"timestamp('",
    b"[1,2,3]",
    b"{'a': 1}",
    b"optional.of(",
    b".orValue(",
    b"semver('1.2.3')",
    b"cidr('10.0.0.0/8')",
    b".find(",
    b"9223372036854775807",
    b"params",
    b"0x7fffffffffffffff",
)
DEVICE = devices.device_value(
    "driver.test",
    {
        "attributes": {"model": {"string": "a"}, "version": {"version": "1.2.3"}},
        "capacity": {"memory": {"value": "1Gi"}},
    },
)


@target(CelError, UnicodeDecodeError, tokens=CEL, max_bytes=512)
def cel(data: bytes) -> None:
    """An expression that compiles has a value, or an error; both within the limits of costs."""
    text = data.decode()
    admission.Checker(params=True).check(text)
    expression = admission.AdmissionExpression(text)
    expression.evaluate({"object": OBJECT, "oldObject": None, "params": {}, "request": {}}, Budget())


@target(
    CelError,
    UnicodeDecodeError,
    tokens=(*CEL, b"device.driver", b"device.attributes['driver.test'].model", b"device.capacity"),
    max_bytes=512,
)
def device_selector(data: bytes) -> None:
    """A selector that compiles is true or false for a device, or has an error."""
    text = data.decode()
    devices.check_selector(text)
    assert devices.DeviceSelector(text).matches(DEVICE) in (True, False)


@target(UnicodeDecodeError, tokens=(b".spec", b"[*]", b"['a']", b"[0:2]", b"[-1]", b"..", b"[?(@.a==", b"{", b"}"))
def json_path(data: bytes) -> None:
    """Any path can be evaluated, as those of printer columns are not validated completely."""
    path = data.decode()
    jsonpath_problem(path)
    for value in json_paths.values_at(path, OBJECT):
        json_paths.text_of(value)
