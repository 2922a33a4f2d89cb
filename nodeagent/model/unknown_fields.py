"""Unknown fields of pod manifests: the decoder ignores them, so that misspelled fields have no effect. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from nodeagent.base.similarity import most_similar
from nodeagent.model.pod import Pod

UNKNOWN_FIELDS_IGNORED = "Static pod has unknown fields, ignoring them"
"""Log message of the pod sources."""
Path = tuple[str | int, ...]
_SIMILAR = 0.75
_INLINE = "inline"


class UnknownField(NamedTuple):
    """Field that does not exist in a pod."""

    path: str
    suggestion: str
    """Similar field of the same object; empty if there is none."""

    def __str__(self) -> str:
        return f"{self.path} (did you mean {self.suggestion}?)" if self.suggestion else self.path


def unknown_fields(plain: Mapping[str, Any]) -> list[UnknownField]:
    """Return the unknown fields of *plain*, a Pod in the shape of its JSON form.

    Fields that exist but that this node does not use are not included.
    """
    fields = list(_undeclared(_shapes(), plain, ()))
    if not fields:
        return []
    from nodeagent.base import apiproto  # The definitions of all fields need megabytes.

    pod = apiproto.descriptor("v1", "Pod")
    return [_unknown_field(path, known) for path, known in fields if not _has(pod, path)]


def unknown_spec_fields(plain: Mapping[str, Any]) -> list[UnknownField]:
    """Return the same for the spec of *plain*, a pod of the API server, whose release may be later than the agent's."""
    return unknown_fields({"spec": plain.get("spec") or {}})


class _Shape(NamedTuple):
    """Type of an object or a list: the shapes of its fields, or those of all its values or items."""

    fields: dict[str, list[_Shape]] | None = None
    values: list[_Shape] | None = None
    items: list[_Shape] | None = None


@lru_cache(maxsize=1)
def _shapes() -> list[_Shape]:
    import msgspec.inspect

    return _converted(msgspec.inspect.type_info(Pod))


def _converted(described: Any) -> list[_Shape]:
    """Return the shapes of a type as :mod:`msgspec.inspect` describes it; a scalar has none."""
    shapes = []
    for kind in getattr(described, "types", (described,)):
        if hasattr(kind, "fields"):
            shapes.append(_Shape(fields={field.encode_name: _converted(field.type) for field in kind.fields}))
        elif hasattr(kind, "value_type"):
            shapes.append(_Shape(values=_converted(kind.value_type)))
        elif hasattr(kind, "item_type"):
            shapes.append(_Shape(items=_converted(kind.item_type)))
    return shapes


def _undeclared(shapes: Iterable[_Shape], value: Any, path: Path) -> Iterator[tuple[Path, Iterable[str]]]:
    """Yield the fields of *value* that its shape does not have, each with the fields that it has."""
    for shape in shapes:
        if isinstance(value, dict) and shape.fields is not None:
            for name, inner in value.items():
                if (known := shape.fields.get(name)) is None:
                    yield (*path, name), shape.fields
                elif known and isinstance(inner, dict | list):
                    yield from _undeclared(known, inner, (*path, name))
        elif isinstance(value, dict) and shape.values:
            for name, inner in value.items():
                yield from _undeclared(shape.values, inner, (*path, name))
        elif isinstance(value, list) and shape.items:
            for index, inner in enumerate(value):
                yield from _undeclared(shape.items, inner, (*path, index))


def _has(message: Any, path: Path) -> bool:
    """Return whether the last name of *path* is a field, given that all names before it are."""
    names = iter(path)
    for name in names:
        if isinstance(name, int):
            continue
        field = _fields(message).get(name)
        if field is None:
            return False
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            message = message.fields_by_name["value"].message_type
            next(names, None)  # The key of the map.
        if message is None:
            return True
    return True


def _fields(message: Any) -> dict[str, Any]:
    """Return the fields by their JSON names, including those of embedded messages."""
    fields: dict[str, Any] = {}
    for field in message.fields:
        if field.name.startswith(_INLINE):
            fields |= _fields(field.message_type)
        else:
            fields[field.name] = field
    return fields


def _unknown_field(path: Path, known: Iterable[str]) -> UnknownField:
    *before, name = path
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in before)
    return UnknownField(f"{where}.{name}".removeprefix("."), most_similar(str(name), known, _SIMILAR))
