"""Separate process: sixteen concurrent writers that print each acknowledged write until the process is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from apiserver_stub.storage import Outcome, Put, Record
from apiserver_stub.storage.sqlite import SqliteStore

DATA = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"%s"},"data":{"n":"%d","copy":"%d"}}'
WRITERS = 16


async def write(store: SqliteStore, name: str) -> None:
    """Increment the object *name* until killed."""
    number = 0
    known = store.collection("core/configmaps").get(name)
    if known is not None:
        number = int(known.data.split(b'"n":"')[1].split(b'"')[0])

    def decide(current: Record | None) -> Outcome:
        return Put(DATA % (name.encode(), number, number))

    while True:
        number += 1
        record = await store.update("core/configmaps", name, decide)
        os.write(1, f"{name} {number} {record.revision}\n".encode())  # complete lines, without buffering


async def main(path: Path) -> None:
    store = SqliteStore(path)
    await store.open()
    await asyncio.gather(*(write(store, f"w{number}") for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
