"""Fixtures: private embedded runtimes, a client, and pods that are removed after the test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.image_service import CriImageService
from tests.integration.cri.conftest import Pods
from tests.integration.embedded_runtime.daemon import EmbeddedRuntime


def runners() -> list[str]:
    """Return the available OCI runtimes, including the built-in one."""
    return ["", "own"]


@pytest.fixture(scope="module", params=runners(), ids=["installed", "own"])
def daemon(request: pytest.FixtureRequest) -> Iterator[EmbeddedRuntime]:
    """Runtime of a test module."""
    running = EmbeddedRuntime("--runner", request.param)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
async def cri(daemon: EmbeddedRuntime) -> AsyncIterator[CriRuntime]:
    client = CriRuntime(Connection(daemon.endpoint, timeout_seconds=30), SystemClock())
    yield client
    await client.close()


@pytest.fixture
async def cri_images(cri: CriRuntime) -> CriImageService:
    return CriImageService(cri.connection)


@pytest.fixture
async def pods(cri: CriRuntime, tmp_path: Path) -> AsyncIterator[Pods]:
    pods = Pods(cri, tmp_path)
    yield pods
    for sandbox in await cri.list_sandboxes():
        await cri.stop_sandbox(sandbox.id)
        await cri.remove_sandbox(sandbox.id)


def is_running(pid: int) -> bool:
    """Return whether the process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
