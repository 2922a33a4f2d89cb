"""Tests for inotify."""

import asyncio
import errno
import os

import pytest

from nodeagent.base.inotify import Inotify, Mask


async def test_events_name_their_file_until_the_watch_is_removed(tmp_path):
    events, received = [], asyncio.Event()

    def notify(event):
        events.append(event)
        received.set()

    async def next_event():
        async with asyncio.timeout(10):
            await received.wait()
        received.clear()

    inotify = Inotify(notify)
    (tmp_path / "sub").mkdir()
    watch = inotify.add(tmp_path, Mask.CREATE | Mask.DELETE | Mask.ONLYDIR)
    other = inotify.add(tmp_path / "sub", Mask.CREATE)
    (tmp_path / "ä").touch()
    await next_event()
    (tmp_path / "sub" / "nested").mkdir()
    await next_event()
    inotify.remove(other)
    await next_event()
    (tmp_path / "sub" / "again").touch()
    (tmp_path / "ä").unlink()
    await next_event()
    inotify.close()
    inotify.close()

    assert events == [
        (watch, Mask.CREATE, "ä"),
        (other, Mask.CREATE | Mask.ISDIR, "nested"),
        (other, Mask.IGNORED, ""),
        (watch, Mask.DELETE, "ä"),
    ]


async def test_watch_of_a_missing_file_fails_with_the_kernels_error(tmp_path):
    inotify = Inotify(lambda _: None)
    with pytest.raises(FileNotFoundError) as raised:
        inotify.add(tmp_path / "none", Mask.CREATE)
    inotify.close()

    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, tmp_path / "none")


async def test_no_event_is_delivered_after_close(tmp_path):
    events = []

    def notify(event):
        events.append(event)
        inotify.close()

    inotify = Inotify(notify)
    inotify.add(tmp_path, Mask.CREATE)
    for name in "ab":
        (tmp_path / name).touch()
    async with asyncio.timeout(10):
        while not events:
            await asyncio.sleep(0)

    assert [event.name for event in events] == ["a"]
    assert not [fd for fd in os.listdir("/proc/self/fd") if _is_inotify(fd)]


def _is_inotify(descriptor):
    try:
        return "inotify" in os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return False
