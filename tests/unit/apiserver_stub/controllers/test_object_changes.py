"""Tests for changes of stored objects by controllers."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.object_changes import Changed, change_object
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store

__all__ = ["store"]
MAPS = "core/configmaps"


def config_map(uid: str | None = "u", **data: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "n", **({"uid": uid} if uid else {})}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}


async def change(store: MeteredStore, seen: Any, result: bool | None, **data: str) -> Changed | None:
    def edit(obj: Any) -> bool | None:
        obj["data"].update(data)
        return result

    return await change_object(store, MAPS, seen, edit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("result", "data", "applied", "written"),
    [
        (None, {"a": "2"}, True, True),
        (True, {"a": "2"}, True, True),
        (None, {"a": "1"}, True, False),
        (False, {"a": "2"}, False, False),
    ],
)
async def test_change_is_written_if_it_applies_and_differs(
    store: MeteredStore, result: bool | None, data: dict[str, str], *, applied: bool, written: bool
) -> None:
    store.put(MAPS, config_map(a="1"))
    found = await change(store, config_map(), result, **data)
    assert found is not None
    assert found.applied is applied
    assert store.writes == 1 + written
    assert store.read(MAPS, "n/a")["data"] == ({"a": "2"} if written else {"a": "1"})


@pytest.mark.parametrize("stored", ["another", None])
async def test_deleted_and_other_objects_are_not_changed(store: MeteredStore, stored: str | None) -> None:
    if stored:
        store.put(MAPS, config_map(stored, a="1"))
    writes = store.writes
    assert await change(store, config_map(), None, a="2") is None
    assert store.writes == writes
