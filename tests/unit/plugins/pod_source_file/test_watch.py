"""Tests for the watch of the manifest directory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.base.aio import inotify
from nodeagent_plugins.pod_source_file.watch import Watch


@pytest.fixture
def changed() -> asyncio.Event:
    return asyncio.Event()


@pytest.fixture
async def watch(tmp_path: Path, changed: asyncio.Event) -> AsyncIterator[Watch]:
    watch = Watch(tmp_path / "manifests", changed.set)
    watch.open()
    yield watch
    await watch.close()


async def notified(changed: asyncio.Event) -> None:
    async with asyncio.timeout(10):
        await changed.wait()
    changed.clear()


async def test_deleted_and_renamed_files_are_returned_once(watch, changed, tmp_path):
    directory = tmp_path / "manifests"
    directory.mkdir()
    for name in ("a.yaml", "b.yaml", "c.yaml"):
        (directory / name).touch()
    assert watch.renew()

    (directory / "a.yaml").unlink()
    (directory / "b.yaml").rename(directory / "b2.yaml")
    await notified(changed)

    assert watch.take_deleted() == {"a.yaml", "b.yaml"}
    assert watch.take_deleted() == set()


async def test_directory_that_is_created_again_is_watched(watch, changed, tmp_path):
    directory = tmp_path / "manifests"
    directory.mkdir()
    watch.renew()
    directory.rmdir()
    await notified(changed)
    watch.renew()

    directory.mkdir()
    await notified(changed)
    watch.renew()
    await asyncio.sleep(0.05)
    changed.clear()
    (directory / "a.yaml").touch()

    await notified(changed)


async def test_files_that_are_not_manifests_do_not_notify(watch, changed, tmp_path):
    directory = tmp_path / "manifests"
    directory.mkdir()
    watch.renew()

    (directory / ".hidden.yaml").touch()
    await asyncio.sleep(0.05)

    assert not changed.is_set()


async def test_watch_without_inotify_instances_fails_until_one_is_available(tmp_path, changed, monkeypatch, caplog):
    available = iter([False, False, True])
    monkeypatch.setattr(inotify, "Inotify", limited(inotify.Inotify, available))
    watch = Watch(tmp_path, changed.set)

    results = []
    for _ in range(3):
        watch.open()
        results.append(watch.renew())
    await watch.close()

    assert results == [False, False, True]
    assert [record.message for record in caplog.records] == ["Failed to watch config path, polling it"]


def limited(real: type[inotify.Inotify], available: Iterator[bool]):
    def create(notify):
        if not next(available):
            raise OSError(24, "Too many open files")
        return real(notify)

    return create
