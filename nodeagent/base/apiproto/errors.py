"""What can be wrong with a protobuf body."""

from __future__ import annotations


class ProtobufError(ValueError):
    """The bytes are no object in protobuf form, or the object does not fit its definition."""


class UnsupportedKindError(ProtobufError):
    """The kind has no protobuf form here; JSON carries it."""
