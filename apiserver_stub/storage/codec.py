"""Codec of stored values: media type and encryption at rest.

Values of all three media types can be read, whichever is configured for writes. Stored values do not contain the
revision, which the store assigns.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage.encryption import IDENTITY, DecryptionError, Encryption, Transformer
from apiserver_stub.storage.layout import Layout
from apiserver_stub.storage.stored_versions import conversions
from nodeagent.base import apiproto, yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_MAGIC = b"k8s\0"
_AS_SERVED = re.compile(rb'\{"kind":"([^"\\]*)","apiVersion":"([^"\\]*)","metadata":\{')
_STORED = yamlsafe.Limits(max_bytes=16 << 20)


class UndecodableObject(DecryptionError):
    """A stored value was decrypted, but is not an object."""


def _keep(obj: Object) -> None:
    """Leave *obj* unchanged."""


class StorageCodec(Struct, frozen=True):
    """Encoding and encryption of stored values.

    :param media_type: media type of new values.
    :param complete: completes an object that was stored as protobuf, in place; raises ``ValueError`` if it is invalid.
    """

    layout: Layout
    encryption: Encryption
    identity: Identity
    media_type: str = media.JSON
    complete: Callable[[Object], None] = _keep

    def plain(self, collection: str) -> bool:
        """Return whether values of *collection* are stored in their served form."""
        return self.media_type == media.JSON and self.encryption.writer(collection) is IDENTITY

    def write(self, collection: str, key: str, data: bytes) -> tuple[bytes, Transformer]:
        """Return the stored value of *data* and its transformer."""
        transformer = self.encryption.writer(collection)
        value = self._encode(data)
        if transformer is not IDENTITY:
            value = transformer.encrypt(value, self.layout.full_key(collection, key).encode())
        return value, transformer

    def read(self, collection: str, key: str, stored: bytes) -> tuple[bytes, Transformer]:
        """Return the object without a revision, and the transformer that encrypted it.

        :raises DecryptionError: no key matches.
        :raises UndecodableObject: the decrypted bytes are not an object.
        """
        full_key = self.layout.full_key(collection, key).encode()
        value, transformer = self.encryption.decrypt(collection, stored, full_key)
        return self._decode(value), transformer

    def is_stale(self, collection: str, identity: bytes) -> bool:
        """Return whether a value encrypted by the transformer *identity* must be rewritten with the current one."""
        return identity != self.encryption.writer(collection).identity

    def _encode(self, data: bytes) -> bytes:
        if self.media_type == self.identity.protobuf_media_type:
            try:
                return apiproto.encode(objects.decode(data), self.identity.api_domain)
            except apiproto.ProtobufError:  # The kind has no definition, or a value is out of range.
                return data + b"\n"
        if self.media_type == media.YAML:
            import yaml  # Deferred: only this encoding needs it.

            dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
            text: bytes = yaml.dump(objects.decode(data), Dumper=dumper, sort_keys=False, encoding="utf-8")
            return text
        return data + b"\n"

    def _decode(self, value: bytes) -> bytes:
        identity = self.identity
        try:
            if value.startswith(_MAGIC):
                obj: Any = apiproto.decode(value, identity.api_domain)
            elif value[:1] == b"{":
                head = _AS_SERVED.match(value)
                if head is not None and not _is_converted(head, identity) and b'"resourceVersion"' not in value:
                    return value.rstrip(b"\n")
                obj = objects.decode(value)
            else:
                obj = yamlsafe.load(value, _STORED)
            if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
                raise UndecodableObject("the stored data is not an object")
            obj.setdefault("metadata", {})
            if (convert := conversions(identity).get((obj["kind"], obj.get("apiVersion") or ""))) is not None:
                obj = convert(obj)
            if value.startswith(_MAGIC):
                self.complete(obj)
            return objects.encode_for_store(obj)
        except (ValueError, KeyError, TypeError, apiproto.ProtobufError, msgspec.MsgspecError) as error:
            raise UndecodableObject(f"the stored data cannot be decoded: {error}") from error


def _is_converted(head: re.Match[bytes], identity: Identity) -> bool:
    return tuple(map(bytes.decode, head.groups())) in conversions(identity)
