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
    fields = list(_undeclared(_shape(), plain, ()))
    if not fields:
        return []
    from nodeagent.base import apiproto  # The definitions of all fields need megabytes.

    pod = apiproto.descriptor("v1", "Pod")
    return [_unknown_field(path, known) for path, known in fields if not _has(pod, path)]


def unknown_spec_fields(plain: Mapping[str, Any]) -> list[UnknownField]:
    """Return the same for the spec of *plain*, a pod of the API server, whose release may be later than the agent's."""
    return unknown_fields({"spec": plain.get("spec") or {}})


@lru_cache(maxsize=1)
def _shape() -> Any:
    import msgspec.inspect

    return msgspec.inspect.type_info(Pod)


def _undeclared(shape: Any, value: Any, path: Path) -> Iterator[tuple[Path, Iterable[str]]]:
    """Yield the fields of *value* that *shape* does not have, each with the fields that it has."""
    for kind in getattr(shape, "types", (shape,)):
        if isinstance(value, dict) and hasattr(kind, "fields"):
            known = {field.encode_name: field.type for field in kind.fields}
            for name, inner in value.items():
                if name in known:
                    yield from _undeclared(known[name], inner, (*path, name))
                else:
                    yield (*path, name), known
        elif isinstance(value, dict) and hasattr(kind, "value_type"):
            for name, inner in value.items():
                yield from _undeclared(kind.value_type, inner, (*path, name))
        elif isinstance(value, list) and hasattr(kind, "item_type"):
            for index, inner in enumerate(value):
                yield from _undeclared(kind.item_type, inner, (*path, index))


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
