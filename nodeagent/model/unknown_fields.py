"""Fields that no pod has: readers pass over them, and whoever misspelt one waits for its effect."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from nodeagent.model.pod import Pod

FIELDS_WITHOUT_EFFECT = "Static pod has fields that no pod has, they have no effect"
"""What the log says of them."""
Path = tuple[str | int, ...]
_SIMILAR = 0.75
_INLINE = "inline"


class UnknownField(NamedTuple):
    """A field that no pod has."""

    path: str
    meant: str
    """The field beside it that it looks like, empty when it looks like none."""

    def __str__(self) -> str:
        return f"{self.path} (did you mean {self.meant}?)" if self.meant else self.path


def unknown_fields(plain: Mapping[str, Any]) -> list[UnknownField]:
    """Return the fields of *plain*, a Pod in the wire's shape, that no pod has.

    Fields that pods have and this node has no use for are known.
    """
    found = list(_beyond(_shape(), plain, ()))
    if not found:
        return []
    from nodeagent.base import apiproto  # the tables of all fields take megabytes

    pod = apiproto.descriptor("v1", "Pod")
    return [_told(path, known) for path, known in found if not _has(pod, path)]


@lru_cache(maxsize=1)
def _shape() -> Any:
    import msgspec.inspect

    return msgspec.inspect.type_info(Pod)


def _beyond(shape: Any, value: Any, path: Path) -> Iterator[tuple[Path, Iterable[str]]]:
    """Yield the members of *value* that *shape* does not have, each with those that it has instead."""
    for kind in getattr(shape, "types", (shape,)):
        if isinstance(value, dict) and hasattr(kind, "fields"):
            known = {field.encode_name: field.type for field in kind.fields}
            for name, inner in value.items():
                if name in known:
                    yield from _beyond(known[name], inner, (*path, name))
                else:
                    yield (*path, name), known
        elif isinstance(value, dict) and hasattr(kind, "value_type"):
            for name, inner in value.items():
                yield from _beyond(kind.value_type, inner, (*path, name))
        elif isinstance(value, list) and hasattr(kind, "item_type"):
            for index, inner in enumerate(value):
                yield from _beyond(kind.item_type, inner, (*path, index))


def _has(message: Any, path: Path) -> bool:
    """Whether the last name of *path* is a field, where all names before it are."""
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
            next(names, None)  # a key
        if message is None:
            return True
    return True


def _fields(message: Any) -> dict[str, Any]:
    """Return fields by their names in JSON, those of embedded messages too."""
    found: dict[str, Any] = {}
    for field in message.fields:
        if field.name.startswith(_INLINE):
            found |= _fields(field.message_type)
        else:
            found[field.name] = field
    return found


def _told(path: Path, known: Iterable[str]) -> UnknownField:
    *before, name = path
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in before)
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=_SIMILAR)
    return UnknownField(f"{where}.{name}".removeprefix("."), near[0] if near else "")
