"""Second decoding of unreadable values, once other keys are available."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from apiserver_stub.storage.codec import StorageCodec, UndecodableObject
from apiserver_stub.storage.collection import Collection, UnreadableValue
from apiserver_stub.storage.encryption import DecryptionError, Transformer
from apiserver_stub.storage.record import Record, with_revision

_Decoded = tuple[bytes, Transformer] | UnreadableValue


async def reread(codec: StorageCodec, collection: Collection, revision: Callable[[], int]) -> None:
    """Decode the unreadable values of *collection* outside of the event loop, as key management services may block.

    :param revision: returns the revision of the store.
    """
    unread = dict(collection.unreadable)
    if not unread:
        return
    decoded = await asyncio.to_thread(_decode, codec, collection.name, unread)
    found: list[Record] = []
    for key, result in decoded.items():
        before = unread[key]
        if collection.unreadable.get(key) is not before:
            continue  # Changed since.
        if isinstance(result, UnreadableValue):
            collection.unreadable[key] = result
            continue
        del collection.unreadable[key]
        data, transformer = result
        if transformer.identity:
            collection.encrypted_by[key] = transformer.identity
        found.append(Record(key, before.revision, with_revision(data, before.revision)))
    if found:
        collection.reset([*collection.select(), *found], revision())


def _decode(codec: StorageCodec, name: str, unread: Mapping[str, UnreadableValue]) -> dict[str, _Decoded]:
    found: dict[str, _Decoded] = {}
    for key, value in unread.items():
        try:
            found[key] = codec.read(name, key, value.stored)
        except DecryptionError as error:
            found[key] = value._replace(problem=str(error), is_decrypted=isinstance(error, UndecodableObject))
    return found
