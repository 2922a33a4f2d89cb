"""Tests for the mount table and system calls."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import threading
from pathlib import Path

import pytest

from nodeagent.base.mounts import calls
from nodeagent_plugins.volumes import mounts
from nodeagent_plugins.volumes.mounts import in_thread, mount_points

LINES = """\
24 1 0:22 / / rw - ext4 /dev/sda rw
30 24 0:30 / {root}/pods/u/volumes/kind/a rw shared:1 - tmpfs tmpfs rw
31 30 0:31 / {root}/pods/u/volumes/kind/a/deep rw - tmpfs tmpfs rw
32 24 0:32 / {root}/pods/u/volumes/kind/with\\040space rw - tmpfs tmpfs rw
33 24 0:33 / {root}/pods/u/volumes-other rw - tmpfs tmpfs rw
34 30 0:34 / {root}/pods/u/volumes/kind/a rw - tmpfs tmpfs rw
garbage
"""


def test_mounts_below_a_directory_are_listed_deepest_first(tmp_path: Path) -> None:
    volumes = tmp_path / "pods/u/volumes"

    assert mount_points(LINES.format(root=tmp_path.resolve()), volumes) == [
        volumes / "kind/a/deep",
        volumes / "kind/a",
        volumes / "kind/with space",
        volumes / "kind/a",
    ]


def test_mounts_are_found_through_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    line = f"1 2 0:1 / {tmp_path.resolve()}/real/m rw - tmpfs tmpfs rw\n"

    assert mount_points(line, tmp_path / "link") == [tmp_path / "link/m"]


def test_volume_in_memory_is_mounted_without_restrictions(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[object, ...]] = []

    class Kernel:
        def mount(self, device: bytes, target: bytes, kind: bytes, flags: ctypes.c_ulong, data: bytes) -> int:
            done.append((device, target, kind, flags.value, data))
            return 0

    monkeypatch.setattr(calls, "libc", Kernel)

    mounts.LinuxMounter().mount("tmpfs", Path("/v"), "size=4096")

    assert done == [(b"tmpfs", b"/v", b"tmpfs", 0, b"size=4096")]


async def test_cancelled_caller_waits_for_its_thread() -> None:
    started, go, ended = threading.Event(), threading.Event(), []

    def work() -> None:
        started.set()
        go.wait(5)
        ended.append(True)

    task = asyncio.create_task(in_thread(work))
    while not started.is_set():
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go.set()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]


async def test_cancelled_caller_waits_only_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_FINISH_SECONDS", 0.0)
    started, go = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go.wait(5)

    task = asyncio.create_task(in_thread(work))
    while not started.is_set():
        await asyncio.sleep(0.001)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert not go.is_set()
    go.set()


@pytest.mark.parametrize("cancellations", [1, 2])
async def test_error_of_a_cancelled_call_is_not_logged(caplog: pytest.LogCaptureFixture, cancellations: int) -> None:
    started, go = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go.wait(5)
        raise OSError(5, "Input/output error")

    task = asyncio.create_task(in_thread(work))
    while not started.is_set():
        await asyncio.sleep(0.001)
    others = asyncio.all_tasks() - {task, asyncio.current_task()}
    for _ in range(cancellations):
        task.cancel()
        await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.gather(*(asyncio.wait({other}) for other in others))
    del task, others
    gc.collect()
    await asyncio.sleep(0)

    assert caplog.messages == []
