"""Tests for listers of stored objects."""

from __future__ import annotations

from pathlib import Path

from apiserver_stub.admission import listers
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery import objects
from apiserver_stub.storage import Put
from apiserver_stub.storage.sqlite import SqliteStore


async def test_list_is_decoded_again_only_after_a_change(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    await store.update("core/limitranges", "a/x", lambda _: Put(objects.encode_for_store({"metadata": {"name": "x"}})))
    lister = Lister(store)

    found = lister.every("core/limitranges", "a")
    assert [item["metadata"]["name"] for item in found] == ["x"]
    assert lister.every("core/limitranges", "a") is found
    await store.update("core/limitranges", "a/y", lambda _: Put(objects.encode_for_store({"metadata": {"name": "y"}})))
    assert [item["metadata"]["name"] for item in lister.every("core/limitranges", "a")] == ["x", "y"]
    await store.close()


async def test_number_of_cached_lists_is_bounded(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    lister = Lister(store)
    first = lister.every("core/limitranges", "0")

    for number in range(listers.MOST_LISTS):
        lister.every("core/limitranges", str(number))
    assert lister.every("core/limitranges", "0") is first
    lister.every("core/limitranges", "further")

    assert lister.every("core/limitranges", "0") is not first
    await store.close()
