"""Changes of the fields of valid objects, for parsers that reject most other inputs early."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

MAX_CHANGES = 8
VALUES: tuple[Any, ...] = (
    *(None, {}, [], [None], True, False, {"a": "b"}, ["a", "a"], {"a": None}, [{}], [{"name": "a"}, {"name": "a"}]),
    *(0, 1, -1, 80, 65536, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 0.5, 1.0, 1e300),
    *(
        "",
        "a",
        "A_",
        "-a",
        "a" * 64,
        "a" * 254,
        "é",
        "\x00",
        "\n",
        "*",
        "/",
        "a/b",
        "a/b/c",
        "../a",
        ".",
        "..",
        "/a/../b",
    ),
    *(
        "1",
        "-1",
        "1.5",
        "1Gi",
        "1m",
        "5%",
        "-5%",
        "101%",
        "10.0.0.0/8",
        "10.0.0.1",
        "::1",
        "::ffff:1.2.3.4",
        "010.0.0.1",
    ),
    *(
        "2024-01-01T00:00:00Z",
        "1h",
        "@every 1s",
        "* * * * *",
        "TZ=UTC * * * * *",
        "https://a:1/b",
        "YQ==",
        "a=b",
        "Exists",
    ),
    *(
        "In",
        "Always",
        "RollingUpdate",
        "ClusterIP",
        "None",
        "ExternalName",
        "$(A)",
        "self.a",
        "object.b == 1",
        "{.a}",
        "=a",
        "9" * 700,
        "9" * 700 + "%",
        "1-" + "9" * 700,
        "10.0.0.0/" + "9" * 700,
    ),
)
"""Values that replace others; those of the wrong type are rejected by the schema."""


def _positions(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each object or list in *value* with each of its keys or indices."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(below, dict | list):
            yield from _positions(below)


def changed(examples: Sequence[Any], data: bytes) -> Any:
    """Return one of *examples*, selected by the first byte, after changes of which each is three bytes of *data*."""
    obj = copy.deepcopy(examples[data[0] % len(examples)]) if data else {}
    for at in range(1, min(len(data) - 2, 3 * MAX_CHANGES), 3):
        positions = list(_positions(obj))
        if not positions:
            break
        holder, key = positions[int.from_bytes(data[at : at + 2]) % len(positions)]
        change = data[at + 2]
        if change < len(VALUES):
            holder[key] = copy.deepcopy(VALUES[change])
        elif change < 100 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[key]))
        elif change < 110:
            del holder[key]
        else:
            other, name = positions[change * 7 % len(positions)]
            holder[key] = copy.deepcopy(other[name])
    return obj
