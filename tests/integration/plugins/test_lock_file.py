"""Tests for the lock file: a second agent waits for the lock, or the first one releases it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError
from nodeagent.testing import load_plugin, make_context
from nodeagent.testing.clock import eventually
from nodeagent_plugins import lock_file
from nodeagent_plugins.lock_file import acquire, exit_on_contention
from tests.integration.containerd import Containerd
from tests.integration.programs import NodeAgent


@pytest.fixture
def agents(containerd: Containerd, tmp_path: Path) -> Iterator[list[NodeAgent]]:
    """Two agents that share a lock file; the first exits on contention."""
    made = []
    for name, flags in (("first", ["--exit-on-lock-contention"]), ("second", [])):
        directory = tmp_path / name
        directory.mkdir()
        agent = NodeAgent(directory, containerd.endpoint)
        agent.arguments = [f"--lock-file={tmp_path / 'lock'}", *flags]
        made.append(agent)
    yield made
    for agent in made:
        agent.kill()


def test_agent_exits_on_lock_contention(agents: list[NodeAgent]) -> None:
    first, second = agents
    first.start()
    assert first.alive()

    second.start()

    assert first.process is not None
    assert first.process.wait(20) == 0
    assert "Lock requested by another process" in first.log.read_text()
    assert second.healthz()[0] == 200


async def test_second_agent_waits_for_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    held = acquire(lock)
    waiting = asyncio.create_task(asyncio.to_thread(acquire, lock))
    await asyncio.sleep(0.05)
    assert not waiting.done()

    os.close(held)

    os.close(await asyncio.wait_for(waiting, 10))


async def test_opening_the_lock_file_ends_the_watch(tmp_path: Path) -> None:
    lock, stops = tmp_path / "lock", []
    lock.touch()
    watching = asyncio.create_task(exit_on_contention(lock, lambda: stops.append(True)))
    await asyncio.sleep(0.05)
    assert stops == []

    lock.read_bytes()

    await eventually(lambda: stops)
    await watching


def test_lock_file_that_cannot_be_opened_is_rejected(tmp_path: Path) -> None:
    settings = NodeSettings(lock_file=str(tmp_path / "no" / "lock"))

    with pytest.raises(ConfigError, match=r"--lock-file: .* failed to lock"):
        load_plugin(lock_file, context=make_context(tmp_path, settings=settings))
