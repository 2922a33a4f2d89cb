"""What a record looks like as stored bytes: its media type, and its seal.

Any of the three media types is read, whichever is written. Stored bytes never carry the revision, which is the store's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from apiserver_stub import media, objects
from apiserver_stub.encryption import IDENTITY, Encryption, Sealer, Unreadable
from apiserver_stub.store.layout import Layout
from nodeagent.base import apiproto, yamlsafe

_MAGIC = b"k8s\0"
_AS_SERVED = re.compile(rb'\{"kind":"[^"\\]*","apiVersion":"[^"\\]*","metadata":\{')
_STORED = yamlsafe.Limits(max_bytes=16 << 20)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True, slots=True)
class Coding:
    """How values are written and read.

    :param media_type: what new values are written as.
    """

    layout: Layout
    encryption: Encryption
    media_type: str = media.JSON

    def plain(self, collection: str) -> bool:
        """Return whether values of *collection* are written as they are served."""
        return self.media_type == media.JSON and self.encryption.writer(collection) is IDENTITY

    def write(self, collection: str, key: str, data: bytes) -> tuple[bytes, Sealer]:
        """Return what to store for *data*, and what sealed it."""
        sealer = self.encryption.writer(collection)
        value = self._encode(data)
        if sealer is not IDENTITY:
            value = sealer.seal(value, self.layout.place(collection, key).encode())
        return value, sealer

    def read(self, collection: str, key: str, stored: bytes) -> tuple[bytes, Sealer]:
        """Return the object as stores hand it on, without a revision, and what had sealed it.

        :raises Unreadable: no key fits, or the bytes are no object.
        """
        place = self.layout.place(collection, key).encode()
        value, sealer = self.encryption.open(collection, stored, place)
        return _decode(value), sealer

    def is_stale(self, collection: str, sealer: bytes) -> bool:
        """Return whether a value sealed by the sealer of that identity is due to be written anew."""
        return sealer != self.encryption.writer(collection).identity

    def _encode(self, data: bytes) -> bytes:
        if self.media_type == media.PROTOBUF:
            try:
                return apiproto.encode(objects.decode(data))
            except apiproto.ProtobufError:  # a kind without definitions, or a value that its field has no room for
                return data + b"\n"
        if self.media_type == media.YAML:
            text: bytes = yaml.dump(objects.decode(data), Dumper=_DUMPER, sort_keys=False, encoding="utf-8")
            return text
        return data + b"\n"


def _decode(value: bytes) -> bytes:
    try:
        if value.startswith(_MAGIC):
            obj: Any = apiproto.decode(value)
        elif value[:1] == b"{":
            if _AS_SERVED.match(value) and b'"resourceVersion"' not in value:
                return value.rstrip(b"\n")
            obj = objects.decode(value)
        else:
            obj = yamlsafe.load(value, _STORED)
        if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
            raise Unreadable("the stored data is no object")
        obj.setdefault("metadata", {})
        return objects.encode_for_store(obj)
    except (ValueError, KeyError, TypeError, apiproto.ProtobufError, msgspec.MsgspecError) as error:
        raise Unreadable(f"the stored data cannot be decoded: {error}") from error
