"""JSON values in the formats of Go's ``fmt`` and ``encoding/json`` packages. No I/O."""

from __future__ import annotations

import math
from typing import Any

from apiserver_stub.apimachinery.status import quote

_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", type(None): "<nil>"}
_EXPONENTS = range(-4, 6)
"""Decimal exponents of numbers in positional notation."""
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def escape_json(text: str) -> str:
    """Return the JSON *text* with the characters escaped that Go escapes for HTML."""
    return text.translate(_ESCAPES)


def go_value(value: Any) -> str:
    """Return *value* as ``%v`` prints it: ``map[a:1 b:[x y]]``."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{go_value(content)}' for name, content in sorted(value.items()))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_value, value))}]"
    if isinstance(value, float):
        return _float(value)
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def go_literal(value: Any) -> str:
    """Return *value* as ``%#v`` prints it: ``map[string]interface {}{"a":1}``."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{quote(name)}:{go_literal(content)}" for name, content in sorted(value.items()))
        return f"map[string]interface {{}}{{{pairs}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(go_literal, value))}}}"
    if isinstance(value, float):
        return _float(value)
    return "interface {}(nil)" if value is None else quote(value)


def go_type(value: Any) -> str:
    """Return the type of *value*, which must not be a number, as ``%T`` prints it."""
    return _TYPES[value.__class__]


def type_name(value: Any, *, exact: bool = False) -> str:
    """Return the name of the JSON type of *value* as in errors of Go's decoder; *exact* adds the number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return f"number {value}" if exact else "number"
    return "object" if isinstance(value, dict) else "array" if isinstance(value, list) else "string"


def _float(value: float) -> str:
    if not value or not math.isfinite(value):
        return "0" if not value else "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    text = next(text for precision in range(17) if float(text := f"{value:.{precision}e}") == value)
    mantissa, _, exponent = text.partition("e")
    if int(exponent) not in _EXPONENTS:
        return f"{mantissa}e{exponent}"
    decimals = max(len(mantissa.partition(".")[2]) - int(exponent), 0)
    return f"{value:.{decimals}f}"
