"""Tests for the notification of changes in directories."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from nodeagent.base.aio.inotify import CREATE, DELETE, IGNORED, IS_DIRECTORY, ONLY_DIRECTORY, Change, Inotify


async def received(changes: asyncio.Queue[Change], count: int) -> list[Change]:
    async with asyncio.timeout(10):
        return [await changes.get() for _ in range(count)]


async def test_changes_are_reported_with_watch_kind_and_name(tmp_path: Path) -> None:
    changes: asyncio.Queue[Change] = asyncio.Queue()
    with contextlib.closing(Inotify(changes.put_nowait)) as inotify:
        watch = inotify.watch(str(tmp_path), CREATE | DELETE)
        (tmp_path / "ä.yaml").touch()
        (tmp_path / "d").mkdir()
        (tmp_path / "d").rmdir()

        found = await received(changes, 3)

    assert found == [
        Change(watch, CREATE, "ä.yaml"),
        Change(watch, CREATE | IS_DIRECTORY, "d"),
        Change(watch, DELETE | IS_DIRECTORY, "d"),
    ]


async def test_deleted_directory_ends_its_watch(tmp_path: Path) -> None:
    changes: asyncio.Queue[Change] = asyncio.Queue()
    (tmp_path / "d").mkdir()
    with contextlib.closing(Inotify(changes.put_nowait)) as inotify:
        watch = inotify.watch(str(tmp_path / "d"), CREATE)
        (tmp_path / "d").rmdir()

        found = await received(changes, 1)
        inotify.unwatch(watch)

    assert found == [Change(watch, IGNORED, "")]


async def test_missing_directory_raises_and_names_the_path(tmp_path: Path) -> None:
    with contextlib.closing(Inotify(lambda _: None)) as inotify:
        with pytest.raises(FileNotFoundError, match="none"):
            inotify.watch(str(tmp_path / "none"), CREATE)
        (tmp_path / "file").touch()
        with pytest.raises(NotADirectoryError):
            inotify.watch(str(tmp_path / "file"), CREATE | ONLY_DIRECTORY)


async def test_nothing_is_reported_after_close(tmp_path: Path) -> None:
    changes: asyncio.Queue[Change] = asyncio.Queue()
    inotify = Inotify(changes.put_nowait)
    inotify.watch(str(tmp_path), CREATE)
    (tmp_path / "a").touch()
    inotify.close()
    inotify.close()
    await asyncio.sleep(0.05)

    assert changes.empty()
