"""Presence of fields in the JSON form of objects where no value is set."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor


class Presence(Enum):
    """The JSON form of a field without a value."""

    OPTIONAL = "absent"
    ZERO = "zero value"
    NULL = "null"


def presence(field: FieldDescriptor) -> Presence:
    """Return the presence of *field* according to its options in the definition."""
    from nodeagent.base.apiproto._proto.options_pb2 import always, nullable  # type: ignore[attr-defined]

    options = field.GetOptions()
    if not options.Extensions[always]:
        return Presence.OPTIONAL
    return Presence.NULL if options.Extensions[nullable] else Presence.ZERO
