"""Random JSON values: by schema, malformed, and as changes of existing objects. No I/O."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from tests.differential.schema import Shape

_MOST_DEPTH = 5
_STRINGS: Sequence[str] = (
    "",
    "a",
    "abc",
    "A_b",
    "a.b.c",
    "a/b",
    "-a",
    "a" * 64,
    "a" * 254,
    "x" * 5000,
    " ",
    "é",
    "😀",
    "\0",
    "\n",
    "\ud800",
    "../..",
    "/",
    "*",
    "%",
    "%zz",
    "$(VAR)",
    "${a}",
    "{{.}}",
    "true",
    "null",
    "0",
    "-1",
    "80",
    "65536",
    "9" * 30,
    "1e400",
    "NaN",
    "10.0.0.1",
    "010.0.0.1",
    "::1",
    "::ffff:1.2.3.4",
    "10.0.0.0/8",
    "10.0.0.0/33",
    "fd00::/8%eth0",
    "example.com/name",
    "https://example.com:99999/",
    "http://[::1",
    "http://[v1.x]/",
    "(a+)+$",
    "[",
    "(?P<a>",
    "\\p{Greek}",
    "a{1000000}",
    "self",
    "self.a == 1 && has(self.b)",
    "object.metadata.name.startsWith('a')",
    "1/0",
    "[1,2,3].map(x, [1,2,3].map(y, x*y))",
    "request.userInfo.username",
    "{.metadata.name}",
    "{.items[*]",
    "metadata.name",
    "metadata.labels['a']",
    "status.podIP",
    "* * * * *",
    "TZ=UTC 0 0 31 2 *",
    "61 0 * * *",
    "@every 1h",
    "Europe/Berlin",
    "America/../UTC",
    "2024-01-02T03:04:05Z",
    "2024-02-30T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "QUJD",
    "=",
    "Always",
    "None",
    "kube-system",
    "system:masters",
    "kubernetes.io/hostname",
    "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n",
)
_INTEGERS: Sequence[int] = (0, 1, -1, 2, 3, 80, 100, 255, 30001, 65535, 65536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63)
_INTEGERS = (*_INTEGERS, -(2**63), 2**63 - 1, 2**64, 10**40)
_QUANTITIES: Sequence[Any] = (
    "0",
    "1",
    "-1",
    "100m",
    "1Gi",
    "1e3",
    "1.0005",
    "9e999",
    "1e-999",
    "9999999999999999999Ei",
    "0.0000000000001n",
    "1GiB",
    "",
    "+1",
    "1_0",
    "1E",
    5,
    1.5,
    -0.0,
)
_TIMES: Sequence[Any] = (
    "2024-01-02T03:04:05Z",
    "2024-01-02T03:04:05.123456Z",
    "2024-01-02T03:04:05+25:00",
    "0001-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2024-01-02",
    "",
    None,
    0,
)
_KEYS: Sequence[str] = (
    "a",
    "app",
    "example.com/a",
    "Bad Key",
    "",
    "-a",
    "a/b/c",
    "kubernetes.io/x",
    "$patch",
    "#7",
    "\0",
)


class Values:
    """Source of random values.

    :param choice: source of all randomness.
    """

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice

    def chance(self, share: float) -> bool:
        return self.choice.random() < share

    def string(self) -> str:
        if self.chance(0.1):
            return "".join(chr(self.choice.choice((9, 32, 45, 46, 47, 65, 97, 233, 0x4E2D, 0x1F600))) for _ in range(9))
        return self.choice.choice(_STRINGS)

    def anything(self, depth: int = 0) -> Any:
        """Return a value of any type, independent of a schema."""
        kinds = "nbisf" if depth > 2 else "nbisflmm"
        match self.choice.choice(kinds):
            case "n":
                return None
            case "b":
                return self.chance(0.5)
            case "i":
                return self.choice.choice(_INTEGERS)
            case "f":
                return self.choice.choice((0.0, -0.5, 1e308, 1e-300, 1.5, 3.0))
            case "s":
                return self.string()
            case "l":
                return [self.anything(depth + 1) for _ in range(self.choice.randrange(4))]
        return {self.choice.choice(_KEYS): self.anything(depth + 1) for _ in range(self.choice.randrange(4))}

    def of(self, shape: Shape, depth: int = 0) -> Any:
        """Return a value of the type *shape*, sometimes of another one."""
        if self.chance(0.04):
            return self.anything()
        if shape.choices and self.chance(0.85):
            return self.choice.choice(shape.choices)
        match shape.form:
            case "object":
                return self._object(shape, depth)
            case "list":
                count = self.choice.choice((0, 1, 1, 2, 3)) if depth < _MOST_DEPTH else 0
                return [self.of(shape.item, depth + 1) for _ in range(count)]
            case "map":
                count = self.choice.choice((0, 1, 1, 2)) if depth < _MOST_DEPTH else 0
                return {self.choice.choice(_KEYS): self.of(shape.item, depth + 1) for _ in range(count)}
            case "string" | "bytes":
                return self.string()
            case "int32" | "int64":
                return self.choice.choice(_INTEGERS)
            case "bool":
                return self.chance(0.5)
            case "float":
                return self.choice.choice((0, 1, -1, 0.5, 1e300))
            case "quantity":
                return self.choice.choice(_QUANTITIES)
            case "int-or-string":
                return self.choice.choice((*_INTEGERS, "10%", "101%", "-5%", "http", "%", "1.5%", ""))
            case "time" | "micro-time":
                return self.choice.choice(_TIMES)
        return self.anything()

    def changed(self, obj: Any, shape: Shape) -> Any:
        """Return a copy of *obj* with random changes."""
        result = copy.deepcopy(obj)
        for _ in range(self.choice.choice((0, 0, 0, 1, 1, 1, 1, 2, 3, 8))):
            self._change(result, shape, 0)
        return result

    def _object(self, shape: Shape, depth: int) -> dict[str, Any]:
        fields = shape.fields
        required = set(shape.node.get("required", ())) if self.chance(0.95) else set()
        share = (0.6, 0.4, 0.25, 0.15, 0.08)[depth] if depth < _MOST_DEPTH else 0.0
        names = [name for name in fields if name in required or self.chance(share)]
        if depth > _MOST_DEPTH + 2:
            return {}
        return {name: self.of(fields[name], depth + 1) for name in names}

    def _change(self, value: Any, shape: Shape, depth: int) -> None:
        """Change *value*, an object or a list, or something in it, in place."""
        below: list[Any] = []
        if isinstance(value, dict):
            below = [name for name, item in value.items() if isinstance(item, dict | list) and item]
        elif isinstance(value, list):
            below = [index for index, item in enumerate(value) if isinstance(item, dict | list) and item]
        if below and self.chance(0.75):
            step = self.choice.choice(below)
            self._change(value[step], _member(shape, step), depth + 1)
        elif isinstance(value, dict):
            self._change_fields(value, shape, depth)
        elif isinstance(value, list):
            self._change_items(value, shape, depth)

    def _change_fields(self, value: dict[str, Any], shape: Shape, depth: int) -> None:
        action = self.choice.random()
        if value and action < 0.15:
            del value[self.choice.choice(list(value))]
        elif value and action < 0.45:
            name = self.choice.choice(list(value))
            value[name] = self.of(_member(shape, name), depth)
        elif value and action < 0.55:
            value[self.choice.choice(list(value))] = self.anything()
        elif shape.form == "object" and shape.fields and action < 0.95:
            name = self.choice.choice(list(shape.fields))
            value[name] = self.of(shape.fields[name], depth)
        else:
            value[self.choice.choice(_KEYS)] = self.of(shape.item, depth) if shape.form == "map" else self.anything()

    def _change_items(self, value: list[Any], shape: Shape, depth: int) -> None:
        action = self.choice.random()
        if value and action < 0.2:
            value.pop(self.choice.randrange(len(value)))
        elif value and action < 0.4:
            value.append(copy.deepcopy(self.choice.choice(value)))
        elif value and action < 0.5:
            self.choice.shuffle(value)
        elif value and action < 0.65:
            value[self.choice.randrange(len(value))] = self.anything()
        else:
            value.insert(self.choice.randrange(len(value) + 1), self.of(shape.item, depth))


def _member(shape: Shape, step: str | int) -> Shape:
    """Return the type of the member *step* of a value of type *shape*."""
    if shape.form == "object" and isinstance(step, str) and step in shape.fields:
        return shape.fields[step]
    if shape.form in ("list", "map"):
        return shape.item
    return Shape("any", shape.document, {})
