"""The real parts that integration tests run against."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import grpc.aio
import pytest
import pytest_asyncio

from tests.integration.containerd import Containerd


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
