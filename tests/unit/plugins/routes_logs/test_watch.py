"""Tests for the watches of log directories."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from nodeagent_plugins.routes_logs.watch import Watches


def descriptors() -> int:
    """Return the number of open inotify instances."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sum("inotify" in os.readlink(link) for link in links if os.path.islink(link))


async def test_change_notifies_the_followers_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    watches = Watches()

    async with (
        watches.watching(str(tmp_path / "a")) as first,
        watches.watching(str(tmp_path / "a")) as second,
        watches.watching(str(tmp_path / "b")) as other,
    ):
        (tmp_path / "a" / "0.log").write_text("x")
        async with asyncio.timeout(10):
            await first.wait()
            await second.wait()

        assert not other.is_set()


async def test_last_follower_closes_the_inotify_instance(tmp_path: Path) -> None:
    before, watches = descriptors(), Watches()

    async with watches.watching(str(tmp_path)), watches.watching(str(tmp_path)):
        assert descriptors() == before + 1

    assert descriptors() == before


async def test_deleted_directory_notifies_and_is_released(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "0.log").touch()
    before, watches = descriptors(), Watches()

    async with watches.watching(str(tmp_path / "a")) as changed:
        shutil.rmtree(tmp_path / "a")
        async with asyncio.timeout(10):
            await changed.wait()

    assert descriptors() == before


async def test_missing_directory_is_not_watched(tmp_path: Path) -> None:
    async with Watches().watching(str(tmp_path / "none")) as changed:
        assert not changed.is_set()


@pytest.mark.parametrize(("kind", "messages"), [("missing", []), ("loop", ["Failed to watch log directory, polling"])])
async def test_only_unexpected_errors_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, messages: list[str]
) -> None:
    before = descriptors()
    (tmp_path / "loop").symlink_to("loop")

    async with Watches().watching(str(tmp_path / kind)) as changed:
        assert not changed.is_set()

    assert caplog.messages == messages
    assert descriptors() == before
