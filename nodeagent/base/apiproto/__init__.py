"""Protobuf codec of API objects, the default content type of the agent's requests (spec: config.contentType).

The definitions in ``_proto/`` have the published field numbers and the field names of the JSON form, so that a single
definition serves both. They are loaded per API group on first use: importing this package loads none.
"""

from __future__ import annotations

from nodeagent.base.apiproto.codec import (
    WatchFrameDecoder,
    decode,
    descriptor,
    encode,
    encode_watch_frame,
    supports,
)
from nodeagent.base.apiproto.errors import ProtobufError, UnsupportedKindError
from nodeagent.base.apiproto.properties import (
    FieldProperties,
    Presence,
    field_properties,
    is_atomic,
    is_kind,
    is_union,
)
from nodeagent.base.apiproto.registry import add_kind

__all__ = [
    "FieldProperties",
    "Presence",
    "ProtobufError",
    "UnsupportedKindError",
    "WatchFrameDecoder",
    "add_kind",
    "decode",
    "descriptor",
    "encode",
    "encode_watch_frame",
    "field_properties",
    "is_atomic",
    "is_kind",
    "is_union",
    "supports",
]
