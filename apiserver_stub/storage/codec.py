"""Codec of stored values: media type and encryption at rest.

Values of all three media types can be read, whichever is configured for writes. Stored values do not contain the
revision, which the store assigns.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.storage import beta_definitions
from apiserver_stub.storage.encryption import IDENTITY, DecryptionError, Encryption, Transformer
from apiserver_stub.storage.layout import Layout
from nodeagent.base import apiproto, yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_MAGIC = b"k8s\0"
_AS_SERVED = re.compile(rb'\{"kind":"[^"\\]*","apiVersion":"[^"\\]*","metadata":\{')
_DEFINITION = b'{"kind":"%s",' % beta_definitions.KIND.encode()
_STORED = yamlsafe.Limits(max_bytes=16 << 20)


class UndecodableObject(DecryptionError):
    """A stored value was decrypted, but is not an object."""


class StorageCodec(Struct, frozen=True):
    """Encoding and encryption of stored values.

    :param media_type: media type of new values.
    """

    layout: Layout
    encryption: Encryption
    identity: Identity
    media_type: str = media.JSON

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
        return _decode(value, self.identity), transformer

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


def _decode(value: bytes, identity: Identity) -> bytes:
    try:
        if value.startswith(_MAGIC):
            obj: Any = apiproto.decode(value, identity.api_domain)
        elif value[:1] == b"{":
            served = _AS_SERVED.match(value) and not value.startswith(_DEFINITION)
            if served and b'"resourceVersion"' not in value:
                return value.rstrip(b"\n")
            obj = objects.decode(value)
        else:
            obj = yamlsafe.load(value, _STORED)
        if not isinstance(obj, dict) or not isinstance(obj.get("kind"), str):
            raise UndecodableObject("the stored data is not an object")
        obj.setdefault("metadata", {})
        group = identity.group("apiextensions")
        if (obj.get("apiVersion"), obj["kind"]) == (f"{group}/{beta_definitions.VERSION}", beta_definitions.KIND):
            obj = beta_definitions.as_v1(obj, group)
        return objects.encode_for_store(obj)
    except (ValueError, KeyError, TypeError, apiproto.ProtobufError, msgspec.MsgspecError) as error:
        raise UndecodableObject(f"the stored data cannot be decoded: {error}") from error
