"""Fixtures for authentication: objects in memory and tokens signed on demand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.storage import Keep, Outcome, Record


class Objects:
    """Store in memory, limited to the methods that authentication uses."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], Record] = {}

    def put(self, collection: str, obj: dict[str, Any]) -> dict[str, Any]:
        metadata = obj["metadata"]
        full = {"kind": "X", "apiVersion": "v1", **obj}
        key = objects.key_of(metadata.get("namespace", ""), metadata["name"])
        self.records[collection, key] = Record(key, 1, objects.encode_for_store(full))
        return full

    def read(self, collection: str, key: str) -> Any:
        return objects.decode(self.records[collection, key].data)

    def remove(self, collection: str, key: str) -> None:
        del self.records[collection, key]

    def collection(self, name: str) -> Any:
        return SimpleNamespace(get=lambda key: self.records.get((name, key)))

    async def update(self, name: str, key: str, decide: Callable[[Record | None], Outcome]) -> Record:
        outcome = decide(self.records.get((name, key)))
        if not isinstance(outcome, Keep):
            self.records[name, key] = Record(key, 2, outcome.data)
        return self.records[name, key]


@pytest.fixture
def store() -> Any:
    return Objects()
