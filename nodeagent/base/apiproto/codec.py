"""Protobuf codec of API objects: JSON-shaped dictionaries to and from the envelope."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from nodeagent.base.apiproto import framing, registry
from nodeagent.base.apiproto.errors import ProtobufError, UnsupportedKindError
from nodeagent.base.apiproto.unrecognized import has_unrecognized
from nodeagent.base.protobuf_runtime import defer_python_implementation

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from nodeagent.base.apiproto.plans import Plans, Reader, Writer


def supports(api_version: str, kind: str, api_domain: str | None = None) -> bool:
    """Return whether *kind* of *api_version* has a protobuf form; loads nothing.

    :param api_domain: domain of API groups, by default that of the process; likewise for the other functions.
    """
    return registry.locate(api_version, kind, api_domain) is not None


def descriptor(api_version: str, kind: str, api_domain: str | None = None) -> Descriptor | None:
    """Return the definition of *kind*, from which schemas can be derived, or ``None`` if it has none."""
    location = registry.locate(api_version, kind, api_domain)
    found: Descriptor | None = None if location is None else _codec(location).message.DESCRIPTOR
    return found


def encode(obj: Mapping[str, Any], api_domain: str | None = None) -> bytes:
    """Return the envelope of *obj*, which must have ``apiVersion`` and ``kind``.

    Unknown fields and nulls are omitted, unless :func:`decode` kept the field.

    :raises UnsupportedKindError: the kind has no protobuf form; send JSON.
    :raises ProtobufError: the value of a field is invalid; the text names its path.
    """
    from google.protobuf.message import EncodeError

    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    codec = _codec(_locate(api_version, kind, api_domain))
    message = codec.message()
    codec.write(message, obj)
    try:
        data = message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise ProtobufError(f"{kind}: {error}") from error
    return framing.wrap(framing.Envelope(api_version, kind, data))


def decode(data: bytes, api_domain: str | None = None, *, keep_unrecognized: bool = False) -> dict[str, Any]:
    """Return the object in the envelope *data* as the value of its JSON form.

    Empty fields are absent, as in JSON; an empty list of items is present.

    :param keep_unrecognized: include fields of a later release as ``#<number>``, which :func:`encode` writes back.
    :raises UnsupportedKindError: the kind has no protobuf form.
    :raises ProtobufError: the bytes are not an object in protobuf form.
    """
    from google.protobuf.message import DecodeError

    envelope = framing.unwrap(data)
    codec = _codec(_locate(envelope.api_version, envelope.kind, api_domain))
    try:
        message = codec.message.FromString(envelope.raw)
    except DecodeError as error:
        raise ProtobufError(f"{envelope.kind}: {error}") from error
    obj: dict[str, Any] = {"apiVersion": envelope.api_version, "kind": envelope.kind}
    try:
        if keep_unrecognized and has_unrecognized(message):
            obj.update(_plans(keep_unrecognized=True).reader(message.DESCRIPTOR)(message))
        else:
            obj.update(codec.read(message))
    except (ValueError, OverflowError, OSError, RecursionError) as error:  # A time out of range, or embedded JSON.
        raise ProtobufError(f"{envelope.kind}: {error}") from error
    if "items" in codec.message.DESCRIPTOR.fields_by_name:
        obj.setdefault("items", [])
    return obj


def encode_watch_frame(event_type: str, envelope: bytes) -> bytes:
    """Return a frame of a watch stream; *envelope* is a result of :func:`encode`, which watchers may share."""
    return framing.wrap_event(event_type, envelope)


class WatchFrameDecoder:
    """Incremental decoder of a watch stream; buffers at most one incomplete frame.

    :param max_frame_bytes: a longer frame terminates the stream with an error.
    :param keep_unrecognized: see :func:`decode`.
    """

    def __init__(self, max_frame_bytes: int = framing.MAX_FRAME_BYTES, *, keep_unrecognized: bool = False) -> None:
        self._frames = framing.FrameSplitter(max_frame_bytes)
        self._keep_unrecognized = keep_unrecognized

    def feed(self, data: bytes) -> list[tuple[str, dict[str, Any]]]:
        """Return the events that *data* completes, each with its type and object.

        :raises ProtobufError: the stream is corrupted and cannot be read further.
        """
        events = []
        for frame in self._frames.feed(data):
            event_type, envelope = framing.unwrap_event(frame)
            events.append((event_type, decode(envelope, keep_unrecognized=self._keep_unrecognized)))
        return events


class _Codec(NamedTuple):
    message: Any
    """The message class."""
    read: Reader
    write: Writer


def _locate(api_version: str, kind: str, api_domain: str | None) -> registry.Location:
    location = registry.locate(api_version, kind, api_domain)
    if location is None:
        raise UnsupportedKindError(f"no protobuf form of kind {kind!r} in version {api_version!r}")
    return location


@cache
def _codec(location: registry.Location) -> _Codec:
    """Return the codec of *location*; loads its definitions on first use."""
    defer_python_implementation()
    module = importlib.import_module(location.module)
    message = getattr(module, location.message)
    return _Codec(message, _plans().reader(message.DESCRIPTOR), _plans().writer(message.DESCRIPTOR))


@cache
def _plans(*, keep_unrecognized: bool = False) -> Plans:
    from nodeagent.base.apiproto.plans import Plans

    return Plans(keep_unrecognized=keep_unrecognized)
