"""The real parts that integration tests run against."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from tests.integration.containerd import Containerd

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let CI try what fails on real parts once more: its machines are shared, and pause. The summary lists each."""
    if os.environ.get("CI"):
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A private containerd for the whole run; a test removes the pods that it made."""
    with Containerd() as daemon:
        yield daemon


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread() -> AsyncIterator[None]:
    """Keep gRPC's one thread for the whole run, so that no test leaks it by needing it first."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()
