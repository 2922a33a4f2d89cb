"""Encoding of objects: JSON or protobuf, complete or as frames of a watch."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from nodeagent.apiclient import paths
from nodeagent.base import identity, nulls
from nodeagent.contracts.api import Listing, Resource

JSON = "application/json"
MAX_FRAME_BYTES = 16 * 1024 * 1024
T = TypeVar("T")

_log = logging.getLogger(__name__)
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_page_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


class ListMeta(msgspec.Struct):
    """Metadata of a list or object: version and continue token."""

    resource_version: str = msgspec.field(default="", name="resourceVersion")
    continue_: str = msgspec.field(default="", name="continue")


class Versioned(msgspec.Struct):
    """Any object, reduced to its version."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _Page(msgspec.Struct, Generic[T]):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[T] | None = None


class _RawPage(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class _Frame(msgspec.Struct):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


class FrameReader(Protocol):
    """Incremental decoder of a watch stream."""

    def feed(self, data: bytes) -> list[tuple[str, Any]]:
        """Return the events that *data* completes: type, and an object for :func:`convert`.

        :raises ValueError: the stream is corrupted and cannot be read further.
        """
        ...


def media_type_of(headers: Mapping[str, str]) -> str:
    """Return the media type of a response without its parameters."""
    return headers.get("content-type", JSON).partition(";")[0].strip().lower()


def supports(resource: Resource, content_type: str) -> bool:
    """Return whether objects of *resource* can be received as *content_type*."""
    if content_type != identity.current().protobuf_media_type:
        return True
    from nodeagent.base import apiproto

    return apiproto.supports(paths.api_version(resource), resource.kind)


def encode(obj: Mapping[str, Any], content_type: str) -> tuple[bytes, str]:
    """Return *obj* and its media type: *content_type*, or JSON if it does not support the kind."""
    if content_type == identity.current().protobuf_media_type:
        from nodeagent.base import apiproto

        if apiproto.supports(obj.get("apiVersion", ""), obj.get("kind", "")):
            return apiproto.encode(obj), content_type
    return msgspec.json.encode(obj), JSON


def decode(data: bytes, media_type: str, into: type[T]) -> T:
    """Return the object in *data*.

    :raises ValueError: *data* is not such an object.
    """
    if media_type == identity.current().protobuf_media_type:
        return convert(_decode_protobuf(data), into)
    return _decode_object(data, into)


def decode_page(data: bytes, media_type: str, into: type[T]) -> Listing[T]:
    """Return one page of a list; an item that is not a valid *into* is logged and skipped.

    :raises ValueError: *data* is not a list.
    """
    if media_type == identity.current().protobuf_media_type:
        plain = _decode_protobuf(data)
        meta = msgspec.convert(plain.get("metadata") or {}, ListMeta)
        items = _readable(plain.get("items") or (), into)
        return Listing(items, meta.resource_version, meta.continue_)
    try:
        page = _decode(_page_decoder(into), data)
        return Listing(page.items or [], page.metadata.resource_version, page.metadata.continue_)
    except msgspec.ValidationError:
        raw = _decode(_decoder(_RawPage), data)
        items = _readable(raw.items or (), into)
        return Listing(items, raw.metadata.resource_version, raw.metadata.continue_)


def convert(value: Any, into: type[T]) -> T:
    """Return *value*, plain data or raw JSON, as *into*.

    :raises ValueError: *value* is not a valid *into*.
    """
    if isinstance(value, msgspec.Raw):
        return _decode_object(value, into)
    return nulls.convert(value, into)


def frame_reader(media_type: str) -> FrameReader:
    """Return the decoder of a watch stream of *media_type*."""
    if media_type == identity.current().protobuf_media_type:
        from nodeagent.base.apiproto import WatchFrameDecoder

        return WatchFrameDecoder(MAX_FRAME_BYTES, keep_unrecognized=True)
    return JsonFrames()


class JsonFrames:
    """Decoder of JSON objects, one per line; buffers at most one incomplete line."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[tuple[str, Any]]:
        self._rest += data
        end = self._rest.rfind(b"\n")
        if end < 0:
            if len(self._rest) > MAX_FRAME_BYTES:
                raise ValueError(f"watch frame is over {MAX_FRAME_BYTES} bytes")
            return []
        lines = bytes(self._rest[:end]).split(b"\n")
        del self._rest[: end + 1]
        frames = [_decode(_decoder(_Frame), line) for line in lines if line.strip()]
        return [(frame.type, frame.object) for frame in frames]


def _readable(items: Any, into: type[T]) -> list[T]:
    decoded = []
    for item in items:
        try:
            decoded.append(convert(item, into))
        except ValueError as error:
            _log.error("Failed to decode object, skipping", extra={"err": str(error)})
    return decoded


def _decode_object(data: bytes | msgspec.Raw, into: type[T]) -> T:
    try:
        return _decode(_decoder(into), data)
    except msgspec.ValidationError:
        return nulls.convert(_decode(_decoder(Any), data), into)


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(data)
    except RecursionError as error:  # Some fields contain any JSON, such as the parameters of devices.
        raise ValueError("JSON is nested too deeply") from error


def _decode_protobuf(data: bytes) -> dict[str, Any]:
    from nodeagent.base import apiproto

    return apiproto.decode(data, keep_unrecognized=True)  # Objects may be written back.


def _decoder(into: type[T]) -> msgspec.json.Decoder[T]:
    decoded = _decoders.get(into)
    if decoded is None:
        decoded = _decoders[into] = msgspec.json.Decoder(into)
    return decoded


def _page_decoder(into: type[T]) -> msgspec.json.Decoder[_Page[T]]:
    decoded = _page_decoders.get(into)
    if decoded is None:
        decoded = _page_decoders[into] = msgspec.json.Decoder(_Page[into])  # type: ignore[valid-type]
    return decoded
