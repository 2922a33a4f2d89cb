"""The real parts that integration tests run against."""

from __future__ import annotations

from collections.abc import Iterator

import grpc.aio
import pytest

from tests.integration.containerd import Containerd


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A private containerd for the whole run; a test removes the pods that it made."""
    with Containerd() as daemon:
        yield daemon


@pytest.fixture(scope="session", autouse=True)
def grpc_thread() -> Iterator[None]:
    """Keep gRPC's one thread for the whole run, so that no test leaks it by needing it first."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()
