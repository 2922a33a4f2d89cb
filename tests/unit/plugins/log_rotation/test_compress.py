"""Tests for the compression of rotated logs."""

from __future__ import annotations

import asyncio
import gzip
import threading

import pytest

from nodeagent_plugins.log_rotation import compress
from nodeagent_plugins.log_rotation.compress import Compressor


@pytest.fixture
def held(monkeypatch):
    """Delay each compression until the event is set."""
    go, started = threading.Event(), threading.Event()
    real = compress.compress

    def slow(path, stop):
        started.set()
        while not go.is_set() and not stop.is_set():
            stop.wait(0.001)
        real(path, stop)

    monkeypatch.setattr(compress, "compress", slow)
    return go, started


async def test_files_are_compressed_one_after_the_other(tmp_path):
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text(path.name)
    compressor = Compressor()

    task = asyncio.create_task(compressor.run())
    compressor.request(paths)
    while any(path.exists() for path in paths):
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert {p.name: gzip.decompress(p.read_bytes()) for p in tmp_path.iterdir()} == {"a.gz": b"a", "b.gz": b"b"}


async def test_dropped_file_remains_uncompressed(tmp_path, held):
    _, started = held
    path = tmp_path / "0.log.1"
    path.write_text("x")
    compressor = Compressor()
    task = asyncio.create_task(compressor.run())
    compressor.request([path])
    await asyncio.to_thread(started.wait)
    await compressor.drop([tmp_path / "unknown"])
    assert compressor.unfinished == {"0.log.1.tmp"}

    await compressor.drop([path, tmp_path / "unknown"])

    assert compressor.unfinished == frozenset()
    assert [p.name for p in tmp_path.iterdir()] == ["0.log.1"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_cancelled_compression_keeps_the_original(tmp_path, held):
    _, started = held
    path = tmp_path / "0.log.1"
    path.write_text("x")
    compressor = Compressor()
    task = asyncio.create_task(compressor.run())
    compressor.request([path])
    await asyncio.to_thread(started.wait)

    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()

    assert [p.name for p in tmp_path.iterdir()] == ["0.log.1"]


async def test_missing_file_is_skipped(tmp_path, caplog):
    compressor = Compressor()
    task = asyncio.create_task(compressor.run())
    compressor.request([tmp_path / "gone"])
    while not caplog.records:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert list(tmp_path.iterdir()) == []
