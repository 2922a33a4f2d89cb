"""Tests for encryption at rest in the SQLite store: formats and key rotation."""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery import media
from apiserver_stub.storage import Compacted, Keep, Outcome, Put, Record, StoreRejected
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import Encryption, parse_config
from apiserver_stub.storage.layout import Layout
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.identity import Identity

PROTOBUF = "application/vnd.kubernetes.protobuf"

DATA = b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"a":"aHVzaA=="}}'
SECRETS, KEY = "core/secrets", "ns/s"


def keys(*names: str, clear: bool = True) -> Encryption:
    """Return an encryption that encrypts with the first key of *names* and decrypts with all."""
    made: list[Any] = [
        {"aesgcm": {"keys": [{"name": name, "secret": base64.b64encode(name.encode() * 16).decode()}]}}
        for name in names
    ]
    entry = {"resources": ["secrets"], "providers": made + ([{"identity": {}}] if clear else [])}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration"}
    return Encryption(parse_config(json.dumps({**head, "resources": [entry]}).encode(), Identity()))


@asynccontextmanager
async def opened(path: Path, encryption: Encryption, media_type: str = media.JSON) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(
        path / "store.db", codec=StorageCodec(Layout("/registry", {}), encryption, Identity(), media_type)
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def rows(path: Path) -> list[bytes]:
    with sqlite3.connect(path / "store.db") as db:
        found = [data for (data,) in db.execute("SELECT data FROM records ORDER BY revision")]
    db.close()
    return found


def put(data: bytes = DATA) -> Callable[[Record | None], Outcome]:
    return lambda current: Put(data)


def keep(current: Record | None) -> Outcome:
    return Keep()


@pytest.mark.row("opt.encryption-provider-config")
async def test_encrypted_records_are_served_decrypted(tmp_path: Path) -> None:
    async with opened(tmp_path, keys("a")) as store:
        made = await store.update(SECRETS, KEY, put())
        await store.update("core/configmaps", KEY, put())

    (encrypted, clear) = rows(tmp_path)
    assert encrypted.startswith(b"k8s:enc:aesgcm:v1:a:")
    assert b"aHVzaA==" not in encrypted
    assert b"aHVzaA==" in clear
    async with opened(tmp_path, keys("a")) as store:
        found = store.collection(SECRETS).get(KEY)
        assert found is not None
        assert (found.revision, found.data) == (made.revision, made.data)


@pytest.mark.row("opt.encryption-provider-config")
async def test_next_update_rewrites_a_value_of_an_older_key(tmp_path: Path) -> None:
    async with opened(tmp_path, Encryption()) as store:
        first = await store.update(SECRETS, KEY, put())
    async with opened(tmp_path, keys("a")) as store:
        second = await store.update(SECRETS, KEY, keep)
        again = await store.update(SECRETS, KEY, keep)
    async with opened(tmp_path, keys("b", "a")) as store:
        third = await store.update(SECRETS, KEY, keep)
    async with opened(tmp_path, keys("b", clear=False)) as store:
        assert store.collection(SECRETS).first_unreadable() is None
        assert (await store.update(SECRETS, KEY, keep)).revision == third.revision

    assert again.revision == second.revision  # the second update changes nothing
    assert first.revision < second.revision < third.revision
    (row,) = rows(tmp_path)
    assert row.startswith(b"k8s:enc:aesgcm:v1:b:")


async def test_undecryptable_value_is_reported_and_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, keys("a")) as store:
        made = await store.update(SECRETS, KEY, put())
        await store.update(SECRETS, "other/s", put())
    encryption = keys("b")
    async with opened(tmp_path, encryption) as store:
        collection = store.collection(SECRETS)
        unread = collection.first_unreadable("ns/")
        assert unread is not None
        assert "identity transformer tried to read encrypted data" in unread.problem
        assert collection.get(KEY) is None
        with pytest.raises(StoreRejected):
            await store.update(SECRETS, KEY, put())
        before = collection.end

        encryption.rules = keys("b", "a").rules
        await store.reread()

        assert collection.first_unreadable() is None
        found = collection.get(KEY)
        assert found is not None
        assert found.data == made.data
        with pytest.raises(Compacted):
            collection.read(before, 1)  # watchers list again
        await store.update(SECRETS, KEY, put())


@pytest.mark.row("opt.storage-media-type")
@pytest.mark.parametrize(
    ("media_type", "start"),
    [(media.JSON, b'{"kind"'), (media.YAML, b"kind: Secret\n"), (PROTOBUF, b"k8s\0")],
)
async def test_each_storage_format_can_be_encrypted(tmp_path: Path, media_type: str, start: bytes) -> None:
    async with opened(tmp_path, Encryption(), media_type) as store:
        await store.update(SECRETS, KEY, put())
    async with opened(tmp_path, Encryption()) as store:
        found = store.collection(SECRETS).get(KEY)

    assert rows(tmp_path)[0].startswith(start)
    assert found is not None
    assert b'"a":"aHVzaA=="' in found.data


async def test_encrypted_store_without_keys_reports_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path, keys("a")) as store:
        await store.update(SECRETS, KEY, put())
    bare = SqliteStore(tmp_path / "store.db")
    await bare.open()
    try:
        assert bare.collection(SECRETS).first_unreadable() is not None
    finally:
        await bare.close()


async def test_removed_undecryptable_value_is_not_loaded_again(tmp_path: Path) -> None:
    async with opened(tmp_path, keys("a")) as store:
        await store.update(SECRETS, KEY, put())
        await store.update(SECRETS, "other/s", put())
        last = store.revision
    async with opened(tmp_path, keys("b")) as store:
        collection = store.collection(SECRETS)
        before = collection.exists(KEY)
        await store.remove_unreadable(SECRETS, KEY)
        assert (before, collection.exists(KEY), collection.exists("other/s")) == (True, False, True)
    async with opened(tmp_path, keys("a")) as store:
        assert [record.key for record in store.collection(SECRETS).select()] == ["other/s"]
        assert store.revision == last
