"""Tests for the watched directory: found sockets, notifications and their limits."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from nodeagent_plugins.plugin_registry import directory as module
from nodeagent_plugins.plugin_registry.directory import DirectoryWatch, scan


@pytest.fixture
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # Relative paths are short enough for sockets.
    return tmp_path


def bind(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)


def test_sockets_links_and_directories_are_found(directory):
    (directory / "a/b").mkdir(parents=True)
    (directory / ".hidden").mkdir()
    for path in ("one.sock", "a/two.sock", ".hidden/three.sock", ".four.sock"):
        bind(path)
    (directory / "file").touch()
    (directory / "link").symlink_to("one.sock")
    (directory / "loop").symlink_to("a")

    found = scan(directory)

    assert set(found.sockets) == {f"{directory}/one.sock", f"{directory}/a/two.sock"}
    assert found.directories == {str(directory), f"{directory}/a", f"{directory}/a/b"}
    assert found.links == {f"{directory}/link", f"{directory}/loop"}


def test_recreated_socket_has_another_stamp(directory):
    bind("a.sock")
    before = scan(directory).sockets
    assert scan(directory).sockets == before
    (directory / "a.sock").rename(directory / ".old")
    bind("a.sock")
    assert scan(directory).sockets != before


async def test_changes_are_notified_until_the_watch_is_closed(directory):
    async with DirectoryWatch() as watch:
        assert watch.watch(frozenset([str(directory)]))
        assert not watch.watch(frozenset([str(directory)]))
        assert watch.complete and not watch.changed.is_set()

        (directory / "new").mkdir()
        async with asyncio.timeout(10):
            await watch.changed.wait()
        descriptor = watch._inotify.fd

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert not asyncio.get_running_loop().remove_reader(descriptor)


async def test_unused_watch_is_closed():
    async with DirectoryWatch() as watch:
        assert watch.complete


async def test_directory_that_was_removed_since_is_watched_again(directory):
    (directory / "a").mkdir()
    async with DirectoryWatch() as watch:
        assert watch.watch(frozenset([f"{directory}/a"]))
        watch.watch(frozenset())
        assert watch.watch(frozenset([f"{directory}/a"]))


async def test_missing_directory_is_polled_without_a_log_message(directory, caplog):
    async with DirectoryWatch() as watch:
        assert not watch.watch(frozenset([f"{directory}/missing"]))
        assert not watch.complete
        assert caplog.messages == []
        assert watch.watch(frozenset([str(directory)]))
        assert watch.complete


async def test_directories_that_cannot_be_watched_are_logged_once(directory, caplog, monkeypatch):
    from asyncinotify import Inotify

    def fail(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Inotify, "add_watch", fail)
    async with DirectoryWatch() as watch:
        assert not watch.watch(frozenset([str(directory), f"{directory}/other"]))
        assert not watch.complete
    assert [(record.message, record.path) for record in caplog.records] == [
        ("Failed to watch directory, polling", str(directory))
    ]


def test_files_beyond_the_limit_are_ignored(directory, caplog, monkeypatch):
    monkeypatch.setattr(module, "_MAX_ENTRIES", 2)
    for name in ("a", "b"):
        (directory / name).mkdir()
    assert len(scan(directory).directories) == 3 and caplog.messages == []

    (directory / "c").mkdir()
    assert len(scan(directory).directories) == 3
    assert caplog.messages == ["Too many files in plugin directory, ignoring the rest"]


def test_directories_are_read_down_to_a_limit(directory, monkeypatch):
    monkeypatch.setattr(module, "_MAX_DEPTH", 1)
    (directory / "a/b/c").mkdir(parents=True)

    assert scan(directory).directories == {str(directory), f"{directory}/a", f"{directory}/a/b"}


def test_only_failures_to_read_the_directory_itself_are_errors(directory, monkeypatch):
    (directory / "a/b").mkdir(parents=True)
    read = os.scandir

    def fail_for(path):
        def scandir(other):
            if other == path:
                raise PermissionError(errno.EACCES, "no", other)
            return read(other)

        return scandir

    monkeypatch.setattr(module.os, "scandir", fail_for(f"{directory}/a"))
    assert scan(directory).directories == {str(directory), f"{directory}/a"}
    monkeypatch.setattr(module.os, "scandir", fail_for(str(directory)))
    with pytest.raises(PermissionError):
        scan(directory)
