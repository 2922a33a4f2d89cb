"""Tests for durability: after a kill, and when the disk is full."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from apiserver_stub.storage import Put
from apiserver_stub.storage import sqlite as module
from apiserver_stub.storage.sqlite import SqliteStore

from .conftest import Api, Server
from .store_writer import WRITERS

ROUNDS = 30
MAPS = "/api/v1/namespaces/default/configmaps"
EXPIRING = 100_000


async def test_acknowledged_writes_survive_thirty_kills(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged: dict[str, tuple[int, int]] = {}
    newest = 0
    for round_ in range(ROUNDS):
        for name, number, revision in _write_and_kill(path, lines=3 * WRITERS + 7 * round_):
            assert revision > newest
            acknowledged[name] = (number, revision)
        store = SqliteStore(path)
        await store.open()
        try:
            highest = max(revision for _, revision in acknowledged.values())
            assert store.revision >= highest >= newest
            newest = store.revision
            for name, (number, revision) in acknowledged.items():
                record = store.collection("core/configmaps").get(name)
                assert record is not None
                found = json.loads(record.data)
                # The latest write may be unacknowledged; no object is older or a mixture of two writes.
                assert found["data"]["n"] == found["data"]["copy"]
                assert (int(found["data"]["n"]), record.revision) >= (number, revision)
                assert int(found["data"]["n"]) <= number + 1
        finally:
            await store.close()
    assert len(acknowledged) == WRITERS


def _write_and_kill(path: Path, *, lines: int) -> list[tuple[str, int, int]]:
    """Run the writers, kill them after *lines* acknowledged writes and return all acknowledged writes."""
    command = [sys.executable, "-m", "tests.integration.apiserver.store_writer", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reported = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        reported += process.stdout.readlines()
    whole = [line.split() for line in reported if line.endswith("\n")]
    assert len(whole) >= lines
    return [(name, int(number), int(revision)) for name, number, revision in whole]


@contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_full_disk_fails_only_writes_until_space_is_available(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6) as disk:
        server = Server(disk / "data")
        try:
            api = server.api()
            api.ok("POST", MAPS, {"metadata": {"name": "kept"}, "data": {"k": "v"}})
            filler = disk / "filler"
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(bytes(16_384))
            code, status = _fail(api)
            assert (code, status["kind"], status["reason"]) == (503, "Status", "ServiceUnavailable")
            assert "full" in status["message"]
            assert api.ok("GET", f"{MAPS}/kept")["data"] == {"k": "v"}
            assert "kept" in {item["metadata"]["name"] for item in api.ok("GET", MAPS)["items"]}
            assert api.call("GET", "/readyz/etcd")[0] == 500

            filler.unlink()
            api.ok("POST", MAPS, {"metadata": {"name": "after"}})
            names = {item["metadata"]["name"] for item in api.ok("GET", MAPS)["items"]}
            assert {"kept", "after"} <= names
            assert not {name for name in names if name.startswith("lost")}
        finally:
            server.stop()


def _fail(api: Api) -> tuple[int, dict[str, str]]:
    """Write until a write fails, and return its response."""
    for number in range(50):
        code, response = api.call("POST", MAPS, {"metadata": {"name": f"last-{number}"}, "data": {"k": "x" * 100_000}})
        if code != 201:
            return code, response
    raise AssertionError("the disk has room without end")


async def test_mass_expiry_does_not_delay_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPIRY_SWEEP_SECONDS", 3600.0)
    clock, data = [1000.0], b'{"kind":"Event","apiVersion":"v1","metadata":{}}'
    store = SqliteStore(tmp_path / "store.db", now=lambda: clock[0])
    await store.open()
    try:
        writes = (store.update("e", f"k{number}", lambda _: Put(data, 60)) for number in range(EXPIRING))
        await asyncio.gather(*writes)
        clock[0] += 61
        expiring, between = asyncio.create_task(_expire_all(store)), []
        while not expiring.done():
            await store.update("c", "k", lambda _: Put(data))
            between.append(len(store.collection("e")))
        await expiring

        assert len(store.collection("e")) == 0
        steps = [before - after for before, after in pairwise([EXPIRING, *between])]
        assert max(steps) <= 2 * module.EXPIRY_BATCH
    finally:
        await store.close()


async def _expire_all(store: SqliteStore) -> None:
    while await store.expire_due():
        pass
