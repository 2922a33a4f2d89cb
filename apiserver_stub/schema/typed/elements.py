"""Path elements of the items of lists that merge. No I/O."""

from __future__ import annotations

from typing import Any

import msgspec

from apiserver_stub.schema.shapes import UNKNOWN, Form, Shape

_encode = msgspec.json.Encoder(order="deterministic").encode
_SCALARS = (str, int, float, bool)


class InvalidElement(ValueError):
    """An item that is null or lacks a key, so that it has no path element, or a value of the wrong type."""


def require_type(value: Any, shape: Shape) -> None:
    """Return if *value*, which is not empty, has the type that *shape* requires for its parts.

    :raises InvalidElement: it has another type; values of custom kinds are validated after their owners are recorded.
    """
    expected = list if shape.form is Form.LIST else dict
    if value.__class__ is not expected:
        raise InvalidElement(f"expected {'list' if expected is list else 'map'}")


def element_of(item: Any, shape: Shape) -> str:
    """Return the path element of *item* in the list *shape*, in the form of field sets.

    :raises InvalidElement: the item is null or lacks a key.
    """
    if shape.is_set:
        return "v:" + _encode(_scalar(item)).decode()
    if not isinstance(item, dict):
        kind = "a null element" if item is None else "non-map elements"
        raise InvalidElement(f"associative list with keys may not have {kind}")
    schema = shape.item or UNKNOWN
    key = {}
    for name in shape.keys:
        if name in item:
            key[name] = item[name]
        elif (default := shape.key_defaults.get(name, schema.key_default(name))) is not None:
            key[name] = default
        else:
            raise InvalidElement(
                f'associative list with keys has an element that omits key field "{name}" '
                "(and doesn't have default value)"
            )
    return "k:" + _encode(key).decode()


def _scalar(item: Any) -> Any:
    if isinstance(item, _SCALARS):
        return item
    if isinstance(item, dict):
        raise InvalidElement("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise InvalidElement("not supported: associative list with lists as elements")
    raise InvalidElement("associative list without keys has an element that's an explicit null")


def group(items: list[Any], shape: Shape) -> dict[str, list[Any]]:
    """Return *items* by their path elements, in order of first occurrence.

    :raises InvalidElement: an item is null or lacks a key.
    """
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(element_of(item, shape), []).append(item)
    return groups
