"""Tests for the options and arguments of mount system calls."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from nodeagent.base.mounts import calls
from nodeagent.base.mounts.calls import MS_BIND, MS_NOEXEC, MS_RDONLY, MS_REMOUNT, bind, parse_options


class Kernel:
    """Records mounts and unmounts; a remount fails with *error*."""

    def __init__(self, error: int = 0) -> None:
        self.error, self.unmounted = error, 0
        self.flags: list[int] = []

    def call(self, source: str, target: Path, file_system: str, flags: int, data: str) -> None:
        if flags & MS_REMOUNT and self.error:
            raise OSError(self.error, "failed", str(target))
        self.flags.append(flags)

    def unmount(self, target: Path) -> bool:
        self.unmounted += 1
        return True


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(calls, "_call", kernel.call)
    monkeypatch.setattr(calls, "unmount", kernel.unmount)
    monkeypatch.setattr(calls, "_retained", lambda target, options: MS_NOEXEC)
    return kernel


def test_later_options_override_earlier_ones() -> None:
    assert parse_options(["ro", "size=1M", "rw", "noexec", "_netdev"]) == (MS_NOEXEC, ["size=1M"])


def test_read_only_bind_is_remounted_with_the_flags_of_its_source(kernel: Kernel, tmp_path: Path) -> None:
    bind(tmp_path, tmp_path, ["bind", "ro"])
    assert kernel.flags == [MS_BIND, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOEXEC]


def test_bind_that_cannot_be_read_only_is_undone(kernel: Kernel, tmp_path: Path) -> None:
    kernel.error = errno.EPERM
    with pytest.raises(OSError, match="failed"):
        bind(tmp_path, tmp_path, ["ro"])
    assert kernel.unmounted == 1


def test_unmount_of_a_plain_directory_reports_nothing_mounted(tmp_path: Path) -> None:
    with contextlib.suppress(PermissionError):  # Without privileges the kernel does not examine the path.
        assert not calls.unmount(tmp_path)
