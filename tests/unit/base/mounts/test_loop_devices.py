"""Tests for loop devices, with the kernel's interface replaced."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodeagent.base.mounts import loop_devices
from nodeagent.base.mounts.loop_devices import find_loops, hold, release

SET, CLEAR, FREE = loop_devices._SET_DESCRIPTOR, loop_devices._CLEAR_DESCRIPTOR, loop_devices._GET_FREE


class Kernel:
    """Loop devices as files; ``errors`` has the error numbers of the next calls by request."""

    def __init__(self, root, monkeypatch):
        self.root, self.calls, self.errors, self.opened = root, [], {}, []
        (root / "dev").mkdir()
        self.backing = root / "backing"
        self.backing.touch()
        (root / "dev/loop-control").touch()
        monkeypatch.setattr(loop_devices, "_DEVICES", root / "dev")
        monkeypatch.setattr(loop_devices, "find_loops", lambda path: find_loops(path, sysfs=root / "sys"))
        monkeypatch.setattr(loop_devices.fcntl, "ioctl", self.ioctl)
        monkeypatch.setattr(loop_devices.os, "mknod", self.mknod)
        opened = os.open

        def open_observed(path, flags, *arguments):
            self.opened.append((Path(path).name, flags & os.O_ACCMODE))
            return opened(path, flags, *arguments)

        monkeypatch.setattr(loop_devices.os, "open", open_observed)

    def mknod(self, path, mode, device):
        self.calls.append(("mknod", path.name, device))
        path.touch()

    def attach(self, name, backing=None, deleted=False):
        file = self.root / f"sys/{name}/loop/backing_file"
        file.parent.mkdir(parents=True)
        file.write_text(f"{backing or self.backing}{' (deleted)' if deleted else ''}\n")
        (self.root / "dev" / name).touch()

    def ioctl(self, _descriptor, request, _argument=0):
        self.calls.append(request)
        if (error := self.errors.get(request, []).pop(0) if self.errors.get(request) else 0) != 0:
            raise OSError(error, os.strerror(error))
        return 3


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    return Kernel(tmp_path, monkeypatch)


def test_loops_are_found_by_their_file_even_if_it_is_deleted(kernel):
    kernel.attach("loop1")
    kernel.attach("loop2", backing="/other")
    kernel.attach("loop4", deleted=True)

    assert find_loops(kernel.backing, sysfs=kernel.root / "sys") == ["loop1", "loop4"]


def test_attached_loop_is_used_again(kernel):
    kernel.attach("loop1")
    assert hold(kernel.backing) == "loop1" and kernel.calls == []


@pytest.mark.parametrize(("read_only", "access"), [(False, os.O_RDWR), (True, os.O_RDONLY)])
def test_free_loop_is_attached(kernel, read_only, access):
    assert hold(kernel.backing, read_only=read_only) == "loop3"
    assert kernel.calls == [FREE, ("mknod", "loop3", os.makedev(7, 3)), SET]
    assert kernel.opened[0] == ("backing", access)


def test_loop_that_another_process_attached_is_skipped(kernel):
    kernel.errors[SET] = [errno.EBUSY]
    assert hold(kernel.backing) == "loop3"
    assert [call for call in kernel.calls if not isinstance(call, tuple)] == [FREE, SET, FREE, SET]


def test_failed_attachment_is_an_error(kernel):
    kernel.errors[SET] = [errno.EPERM]
    with pytest.raises(PermissionError):
        hold(kernel.backing)
    kernel.errors[SET] = [errno.EBUSY] * loop_devices._ATTEMPTS
    with pytest.raises(OSError, match="no free loop device"):
        hold(kernel.backing)


def test_all_loops_of_a_file_are_detached(kernel):
    kernel.attach("loop1")
    kernel.attach("loop2")
    release(kernel.backing)
    assert kernel.calls == [CLEAR, CLEAR]


def test_loop_that_is_already_detached_or_removed_is_ignored(kernel):
    for name in ("loop1", "loop2", "loop3"):
        kernel.attach(name)
    (kernel.root / "dev/loop1").unlink()
    kernel.errors[CLEAR] = [errno.ENXIO]
    release(kernel.backing)
    assert kernel.calls == [CLEAR, CLEAR]


def test_loop_that_cannot_be_detached_is_an_error(kernel):
    kernel.attach("loop1")
    kernel.errors[CLEAR] = [errno.EPERM]
    with pytest.raises(PermissionError):
        release(kernel.backing)
