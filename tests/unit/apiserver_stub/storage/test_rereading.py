"""Tests for the second decoding of unreadable values: outside of the event loop, without overwriting later changes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.collection import Collection, UnreadableValue
from apiserver_stub.storage.encryption import IDENTITY, DecryptionError, Transformer
from apiserver_stub.storage.rereading import reread

OBJECT = b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}'


class SlowCodec:
    """Codec that waits for a key service, and cannot decode the value ``bad``."""

    def __init__(self) -> None:
        self.reached, self.may_decode = threading.Event(), threading.Event()

    def read(self, name: str, key: str, stored: bytes) -> tuple[bytes, Transformer]:
        self.reached.set()
        self.may_decode.wait(10)
        if stored == b"bad":
            raise DecryptionError("still no key")
        return OBJECT, IDENTITY


def unreadable() -> Collection:
    collection = Collection("core/secrets", 1)
    for key, stored in (("ns/a", b"a"), ("ns/b", b"bad")):
        collection.unreadable[key] = UnreadableValue(3, stored, "no key", is_decrypted=False)
    return collection


async def test_values_are_decoded_outside_of_the_event_loop() -> None:
    collection, codec = unreadable(), SlowCodec()
    task = asyncio.create_task(reread(as_codec(codec), collection, lambda: 7))
    assert await asyncio.to_thread(codec.reached.wait, 10)  # Returns only while the loop runs.
    codec.may_decode.set()
    await task

    found = collection.get("ns/a")
    assert found is not None
    assert (found.revision, b'"resourceVersion":"3"' in found.data) == (3, True)
    assert {key: value.problem for key, value in collection.unreadable.items()} == {"ns/b": "still no key"}


async def test_values_that_changed_since_are_left_alone() -> None:
    collection, codec = unreadable(), SlowCodec()
    task = asyncio.create_task(reread(as_codec(codec), collection, lambda: 7))
    await asyncio.to_thread(codec.reached.wait, 10)
    later = UnreadableValue(5, b"later", "no key", is_decrypted=False)
    collection.unreadable["ns/a"] = later
    codec.may_decode.set()
    await task

    assert collection.get("ns/a") is None
    assert collection.unreadable["ns/a"] is later


def as_codec(fake: Any) -> StorageCodec:
    codec: StorageCodec = fake
    return codec
