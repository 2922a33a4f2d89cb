"""Properties of types and fields that the wire format does not show, such as presence, list types and releases.

They are options of the messages and fields in the definitions; see ``_proto/options.proto``.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor


class Presence(Enum):
    """The JSON form of a field without a value."""

    OPTIONAL = "absent"
    ZERO = "zero value"
    NULL = "null"


class FieldProperties(Struct, frozen=True):
    """Properties of a field."""

    presence: Presence = Presence.OPTIONAL
    list_type: str = ""
    """``map`` or ``set``; empty for an atomic list."""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    """``atomic`` or ``granular``."""
    patch_strategy: str = ""
    patch_merge_key: str = ""
    exact: bool = False
    """Quantities of the map keep their precision."""
    since: int = 0
    """Minor release of Kubernetes 1 that added the field; 0 for 1.29 or earlier."""
    until: int = 0
    """First minor release of Kubernetes 1 without the field; 0 if it was not removed."""


_USUAL = FieldProperties()


def field_properties(field: FieldDescriptor) -> FieldProperties:
    """Return the properties of *field*."""
    from nodeagent.base.apiproto._proto import options_pb2 as known

    if not field.has_options:
        return _USUAL
    found = field.GetOptions().Extensions
    presence = Presence.OPTIONAL
    if found[known.always]:  # type: ignore[attr-defined]
        presence = Presence.NULL if found[known.nullable] else Presence.ZERO  # type: ignore[attr-defined]
    return FieldProperties(
        presence,
        found[known.list_type],  # type: ignore[attr-defined]
        tuple(found[known.list_map_keys]),  # type: ignore[attr-defined]
        found[known.map_type],  # type: ignore[attr-defined]
        found[known.patch_strategy],  # type: ignore[attr-defined]
        found[known.patch_merge_key],  # type: ignore[attr-defined]
        found[known.exact],  # type: ignore[attr-defined]
        found[known.since],  # type: ignore[attr-defined]
        found[known.until],  # type: ignore[attr-defined]
    )


def is_atomic(message: Descriptor) -> bool:
    """Return whether objects of the type have one owner and are replaced as a whole."""
    from nodeagent.base.apiproto._proto import options_pb2 as known

    return bool(message.GetOptions().Extensions[known.struct_type] == "atomic")  # type: ignore[attr-defined]


def is_kind(message: Descriptor) -> bool:
    """Return whether *message* is a kind of its group version."""
    from nodeagent.base.apiproto._proto import options_pb2 as known

    return bool(message.GetOptions().Extensions[known.kind])  # type: ignore[attr-defined]


def is_union(message: Descriptor) -> bool:
    """Return whether the JSON form of the type is the value of one of its fields."""
    from nodeagent.base.apiproto._proto import options_pb2 as known

    return bool(message.GetOptions().Extensions[known.union])  # type: ignore[attr-defined]
