"""Decoding of values in etcd, outside of the event loop if it waits for a key management service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import DecryptionError, Transformer
from apiserver_stub.storage.etcd.proto import kv_pb2 as kv
from apiserver_stub.storage.layout import Layout

_Decoded = tuple[bytes, Transformer] | DecryptionError
_Waiting = tuple[kv.KeyValue, str, str]


class StoredValues:
    """Values that *codec* decodes."""

    def __init__(self, codec: StorageCodec, layout: Layout) -> None:
        self._codec, self._layout = codec, layout
        self._prepared: dict[tuple[bytes, int], _Decoded] = {}

    async def prepare(self, items: Iterable[kv.KeyValue]) -> None:
        """Decode those of *items* whose data key must be decrypted first, for :meth:`read` before the next await."""
        encryption = self._codec.encryption
        waiting: list[_Waiting] = []
        if encryption.key_services():
            for item in items:
                location = self._layout.find(item.key.decode(errors="replace"))
                if location is not None and encryption.waits(location[0], item.value):
                    waiting.append((item, *location))
        self._prepared = await asyncio.to_thread(self._decode, waiting) if waiting else {}

    def read(self, name: str, key: str, item: kv.KeyValue) -> tuple[bytes, Transformer]:
        """Return the object without a revision, and the transformer that encrypted it.

        :raises DecryptionError: it cannot be decrypted or decoded.
        """
        found = self._prepared.get((item.key, item.mod_revision))
        if found is None:
            return self._codec.read(name, key, item.value)
        if isinstance(found, DecryptionError):
            raise found
        return found

    def _decode(self, waiting: Sequence[_Waiting]) -> dict[tuple[bytes, int], _Decoded]:
        found: dict[tuple[bytes, int], _Decoded] = {}
        for item, name, key in waiting:
            try:
                found[item.key, item.mod_revision] = self._codec.read(name, key, item.value)
            except DecryptionError as error:
                found[item.key, item.mod_revision] = error
        return found
