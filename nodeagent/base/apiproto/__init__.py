"""Objects of the API in protobuf form, the default content type of an agent's requests (spec: config.contentType).

The definitions in ``_proto/`` carry the field numbers as published; their field names are those of the JSON form, so
that one table serves both. They are loaded a group at a time when first used: importing this package loads none.
"""

from __future__ import annotations

from nodeagent.base.apiproto.codec import (
    WatchFrameDecoder,
    decode,
    descriptor,
    encode,
    encode_list,
    encode_watch_frame,
    supports,
)
from nodeagent.base.apiproto.errors import ProtobufError, UnsupportedKindError
from nodeagent.base.apiproto.presence import Presence, presence

__all__ = [
    "Presence",
    "ProtobufError",
    "UnsupportedKindError",
    "WatchFrameDecoder",
    "decode",
    "descriptor",
    "encode",
    "encode_list",
    "encode_watch_frame",
    "presence",
    "supports",
]
