"""Tests for following a log across rotations."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import os

import pytest

from nodeagent_plugins.routes_logs.follow import read_file
from nodeagent_plugins.routes_logs.rotated import RotatedLogs
from nodeagent_plugins.routes_logs.watch import Watches


class Log:
    """A log that the test rotates like the agent."""

    def __init__(self, directory):
        self.path = directory / "0.log"
        self.path.touch()
        self._stamp = 0

    def write(self, text):
        with self.path.open("a") as file:
            file.write(text)

    def rotate(self):
        self._stamp += 1
        rotated = self.path.with_name(f"0.log.20240101-{self._stamp:06}")
        self.path.rename(rotated)
        self.path.touch()
        return rotated

    def compress(self, rotated):
        rotated.with_name(f"{rotated.name}.gz").write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()

    def open_name(self, name):
        return os.open(self.path.parent / name, os.O_RDONLY | os.O_CLOEXEC)


class Follower:
    """Collects the output of a follower; ``step`` runs one check."""

    def __init__(self, log, clock):
        self._log, self._clock = log, clock
        self.text, self.runs, self.paused = "", True, asyncio.Event()
        self.paused.set()

    @contextlib.asynccontextmanager
    async def following(self):
        task = asyncio.create_task(self._read())
        await self._clock.advance(0.2)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def step(self):
        await self._clock.advance(3)

    async def _read(self):
        pieces = read_file(
            lambda: self._log.open_name("0.log"),
            str(self._log.path.parent),
            Watches(),
            self._clock,
            more_expected=lambda: self.runs,
            rotated=RotatedLogs(self._log.open_name, "0.log"),
        )
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                self.text += piece.decode()
                await self.paused.wait()


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


async def test_several_rotations_between_two_checks(log, clock):
    log.rotate()
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        log.write("2 ")
        log.rotate()
        log.write("3 ")
        log.rotate()
        log.write("4 ")
        log.rotate()
        log.write("5 ")
        await follower.step()
        assert follower.text == "1 2 3 4 5 "


async def test_concurrently_compressed_file_is_read(log, clock):
    log.write("older ")
    log.compress(log.rotate())
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        log.write("2 ")
        ours = log.rotate()
        log.write("3 longer ")
        between = log.rotate()
        log.write("4 ")
        log.compress(ours)
        log.compress(between)
        await follower.step()
        assert follower.text == "1 2 3 longer 4 "


async def test_files_of_equal_size_are_distinguished(log, clock):
    log.write("0 ")
    log.compress(log.rotate())
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        log.rotate()
        log.write("2 ")
        between = log.rotate()
        log.write("3 ")
        log.compress(between)
        await follower.step()
        assert follower.text == "1 2 3 "


async def test_follower_waits_for_a_log_that_is_being_rotated(log, clock):
    log.path.unlink()
    async with Follower(log, clock).following() as follower:
        log.path.write_text("1 ")
        await follower.step()
        assert follower.text == "1 "


async def test_follower_reads_the_remaining_files_after_its_own_is_deleted(log, clock):
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        ours = log.rotate()
        log.write("2 longer ")
        log.rotate()
        log.write("3 ")
        ours.unlink()
        await follower.step()
        assert follower.text == "1 2 longer 3 "


async def test_slow_reader_misses_no_existing_line(log, clock):
    log.write("1 ")
    follower = Follower(log, clock)
    follower.paused.clear()
    async with follower.following():
        for text in ("2 long ", "3 longer ", "4 longest "):
            log.compress(log.rotate())
            log.write(text)
        follower.paused.set()
        await follower.step()
        await follower.step()
        assert follower.text == "1 2 long 3 longer 4 longest "


async def test_late_output_to_the_old_file_precedes_the_new(log, clock):
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        old = log.rotate()
        log.write("3 ")
        await clock.settle()
        with old.open("a") as late:
            late.write("2 ")
        await follower.step()
        assert follower.text == "1 2 3 "


async def test_following_ends_with_the_container(log, clock):
    log.write("1 ")
    async with Follower(log, clock).following() as follower:
        log.rotate()
        log.write("2 ")
        follower.runs = False
        await follower.step()
        assert follower.text == "1 2 "
