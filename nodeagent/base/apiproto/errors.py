"""Errors of the protobuf codec."""

from __future__ import annotations


class ProtobufError(ValueError):
    """The bytes are not an object in protobuf form, or a field has an invalid value."""


class UnsupportedKindError(ProtobufError):
    """The kind has no protobuf form; use JSON."""
