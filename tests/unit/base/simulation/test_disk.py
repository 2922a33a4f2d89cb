"""Tests for the simulated disk: full disks, and files that are lost or torn."""

import errno
import os
from contextvars import Context

import pytest

from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.base.simulation.loop import PROCESS


@pytest.fixture
def disk(tmp_path):
    disk = SimulatedDisk(1, tmp_path)
    with disk.mounted():
        yield disk


def in_process(number, function, *arguments):
    context = Context()
    context.run(PROCESS.set, number)
    return context.run(function, *arguments)


def operations(tmp_path):
    """Return operations by name; those of the first group write."""
    file = tmp_path / "file"
    descriptor = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    writes = {
        "write": lambda: file.write_text("x"),
        "append": lambda: file.open("a").close(),
        "open": lambda: os.close(os.open(file, os.O_WRONLY)),
        "mkdir": (tmp_path / "directory").mkdir,
    }
    others = {
        "read": file.read_text,
        "open to read": lambda: os.close(os.open(file, os.O_RDONLY)),
        "descriptor": lambda: open(descriptor, "w", closefd=False).close(),
    }
    return writes, others


@pytest.mark.parametrize("name", ["write", "append", "open", "mkdir"])
def test_only_writes_of_the_process_fail_on_a_full_disk(disk, tmp_path, name):
    (tmp_path / "file").touch()
    writes, _ = operations(tmp_path)

    disk.full = True
    with pytest.raises(OSError) as raised:
        in_process(1, writes[name])
    assert raised.value.errno == errno.ENOSPC
    in_process(0, writes[name])

    disk.full = False
    (tmp_path / "directory").rmdir() if name == "mkdir" else None
    in_process(1, writes[name])


@pytest.mark.parametrize("name", ["read", "open to read", "descriptor"])
def test_reads_and_open_files_work_on_a_full_disk(disk, tmp_path, name):
    (tmp_path / "file").touch()
    _, others = operations(tmp_path)

    disk.full = True
    in_process(1, others[name])


def test_synced_content_survives_the_loss_of_power(tmp_path):
    for seed in range(10):
        disk = SimulatedDisk(seed, tmp_path)
        with disk.mounted(), (tmp_path / "synced").open("w") as file:
            file.write("content")
            file.flush()
            os.fsync(file)
        assert disk.lose_power() == 0
        assert (tmp_path / "synced").read_text() == "content"


def test_unsynced_content_is_kept_lost_torn_or_zero(tmp_path):
    found, lost = set(), 0
    for seed in range(40):
        file = tmp_path / "file"
        disk = SimulatedDisk(seed, tmp_path)
        with disk.mounted():
            with file.open("w") as opened:
                opened.write("old")
                opened.flush()
                os.fdatasync(opened.fileno())
            file.write_text("new content")
        lost += disk.lose_power()
        found.add(file.read_text())

    assert {"new content", "old"} < found
    assert any(text.startswith("new c") and text != "new content" for text in found)
    assert any(text and not text.strip("\0") for text in found)
    assert 0 < lost < 40


def test_large_and_excluded_files_and_links_are_kept(tmp_path):
    for name, content in (("large", "x" * (1 + (1 << 20))), ("other.db", "content")):
        (tmp_path / name).write_text(content)
    (tmp_path / "link").symlink_to("missing")
    for seed in range(10):
        assert SimulatedDisk(seed, tmp_path, excluded="other").lose_power() == 0
