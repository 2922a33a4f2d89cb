"""Tests for project quotas, with a fake of the kernel's interface."""

from __future__ import annotations

import errno
import os
import struct

import pytest

from nodeagent.base import project_quota
from nodeagent.base.project_quota import ProjectUsage, own_project, project_usage, set_project

GET, SET = 0x801C581F, 0x401C5820
FLAGS = 0x80


class Kernel:
    """Project IDs by path, and the calls of quotactl."""

    def __init__(self):
        self.attributes, self.calls, self.error = {}, [], 0
        self.usage = struct.pack("=8QI4x", 1, 2, 12288, 4, 5, 6, 7, 8, 9)

    def ioctl(self, descriptor, command, content):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if command == SET:
            self.attributes[path] = bytes(content)
        else:
            assert command == GET
            content[:] = self.attributes.get(path, struct.pack("=5I8x", FLAGS, 1, 2, 0, 3))

    def quotactl(self, descriptor, command, identifier, content):
        self.calls.append((command, identifier))
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        content.raw = self.usage


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(project_quota, "_ioctl", kernel.ioctl)
    monkeypatch.setattr(project_quota, "_quotactl", kernel.quotactl)
    return kernel


def test_project_of_a_directory_is_inherited_by_new_files(kernel, tmp_path):
    assert own_project(tmp_path) == 0
    set_project(tmp_path, 77)

    assert own_project(tmp_path) == 77
    assert struct.unpack("=5I8x", kernel.attributes[str(tmp_path)]) == (FLAGS | 0x200, 1, 2, 77, 3)


def test_project_of_the_parent_is_not_its_own(kernel, tmp_path):
    (inner := tmp_path / "inner").mkdir()
    for path in (tmp_path, inner):
        set_project(path, 77)

    assert own_project(inner) == 0


def test_usage_is_that_of_the_project(kernel, tmp_path):
    assert project_usage(tmp_path, 77) == ProjectUsage(12288, 6)
    assert kernel.calls == [(0x80000702, 77)]


def test_unused_project_has_no_usage(kernel, tmp_path):
    kernel.error = errno.ENOENT

    assert project_usage(tmp_path, 77) == ProjectUsage()


def test_file_system_without_project_quotas_is_reported(tmp_path):
    with pytest.raises(OSError) as caught:
        project_usage(tmp_path, 4_000_000_000)

    assert caught.value.errno in (errno.ESRCH, errno.ENOSYS)
