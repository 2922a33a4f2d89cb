"""Tests for project quotas of local volumes, with a fake of the kernel's interface."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.base import project_quota as base_quota
from nodeagent_plugins.local_path import project_quota
from nodeagent_plugins.local_path.project_quota import QuotaUnsupported, clear, limit, project_id

GET, SET = 0x801C581F, 0x401C5820
FLAGS, INHERIT = 0x80, 0x200
PROJECT = 77


class Kernel:
    """Attributes of one directory, and the limits of projects in blocks."""

    def __init__(self) -> None:
        self.attributes = struct.pack("=5I8x", FLAGS, 1, 2, 0, 3)
        self.writes = 0
        self.limits: dict[int, int] = {}
        self.quota_error = self.attribute_error = 0

    def ioctl(self, _descriptor: int, command: int, content: bytearray, _mutate: bool) -> None:
        if self.attribute_error:
            raise OSError(self.attribute_error, os.strerror(self.attribute_error))
        if command == SET:
            self.attributes = bytes(content)
            self.writes += 1
        else:
            assert command == GET
            content[:] = self.attributes

    def syscall(
        self, number: int, _descriptor: int, command: ctypes.c_uint, project: ctypes.c_uint, limits: bytes
    ) -> int:
        assert (number, command.value) == (443, 0x80000802)
        if self.quota_error:
            ctypes.set_errno(self.quota_error)
            return -1
        hard, soft, *_, valid = struct.unpack("=8QI4x", limits)
        assert (hard, valid) == (soft, 1)
        self.limits[project.value] = hard
        return 0


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(base_quota.fcntl, "ioctl", kernel.ioctl)
    monkeypatch.setattr(base_quota, "libc", lambda: kernel)
    return kernel


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


@pytest.mark.parametrize(("capacity", "blocks"), [(1024, 1), (1025, 2), (4096, 4), (1, 1)])
def test_limit_is_rounded_up_to_blocks(kernel: Kernel, directory: int, capacity: int, blocks: int) -> None:
    limit(directory, PROJECT, capacity)

    assert kernel.limits == {PROJECT: blocks}


@pytest.mark.parametrize(
    ("flags", "project", "writes"),
    [(FLAGS, 0, 1), (FLAGS | INHERIT, PROJECT, 0), (FLAGS, PROJECT, 1), (FLAGS | INHERIT, 78, 1)],
)
def test_directory_is_changed_unless_new_files_inherit_the_project(
    kernel: Kernel, directory: int, flags: int, project: int, writes: int
) -> None:
    kernel.attributes = struct.pack("=5I8x", flags, 1, 2, project, 3)

    limit(directory, PROJECT, 1024)

    assert struct.unpack("=5I8x", kernel.attributes) == (FLAGS | INHERIT, 1, 2, PROJECT, 3)
    assert kernel.writes == writes


@pytest.mark.parametrize("number", [errno.ESRCH, errno.ENOSYS, errno.EPERM])
def test_file_system_without_quotas_is_unsupported(kernel: Kernel, directory: int, number: int) -> None:
    kernel.quota_error = number

    with pytest.raises(QuotaUnsupported, match=os.strerror(number)):
        limit(directory, PROJECT, 1024)
    clear(directory, PROJECT)

    assert kernel.writes == 0


def test_other_failure_of_the_quota_is_raised(kernel: Kernel, directory: int) -> None:
    kernel.quota_error = errno.EIO

    with pytest.raises(OSError, match="Input/output error"):
        limit(directory, PROJECT, 1024)
    clear(directory, PROJECT)

    assert kernel.limits == {}


def test_limit_is_removed_if_attributes_are_unsupported(kernel: Kernel, directory: int) -> None:
    kernel.attribute_error = errno.ENOTTY

    with pytest.raises(QuotaUnsupported):
        limit(directory, PROJECT, 1024)

    assert kernel.limits == {PROJECT: 0}


def test_other_failure_of_attributes_is_raised(kernel: Kernel, directory: int) -> None:
    kernel.attribute_error = errno.EIO

    with pytest.raises(OSError, match="Input/output error"):
        limit(directory, PROJECT, 1024)

    assert kernel.limits == {PROJECT: 1}


def test_project_of_a_volume_is_stable_and_unique() -> None:
    first = project_id("pvc-0a1b", ())

    assert first == project_id("pvc-0a1b", {first + 1}) >= 0x4000_0000
    assert project_id("pvc-0a1b", {first, first + 1}) == first + 2


def test_last_project_is_followed_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_quota.zlib, "crc32", lambda _: 0xFFFF_FFFF)

    assert project_id("a", ()) == 0x7FFF_FFFF
    assert project_id("a", {0x7FFF_FFFF}) == 0x4000_0000
