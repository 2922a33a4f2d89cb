"""Fixture for tests with gRPC servers."""

from __future__ import annotations

import grpc.aio
import pytest_asyncio


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread():
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()
