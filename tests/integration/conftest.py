"""Shared fixtures of the integration tests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from nodeagent_plugins.cgroups.files import CgroupError, CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import find_hierarchy
from tests.integration.containerd import Containerd
from tests.integration.programs import unmount_below

HERE = Path(__file__).parent
OWNER = "user.nodeagent.root"
"""Extended attribute of a pod's cgroup with the root directory of its agent."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Retry failed tests once in CI, whose hosts are shared and stall; the summary lists each retry."""
    if os.environ.get("CI"):
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="session")
def containerd() -> Iterator[Containerd]:
    """A private containerd for the session; a test removes the pods that it created."""
    with Containerd() as daemon:
        yield daemon


@pytest.fixture(scope="session", autouse=True)
def removed_cgroups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Remove the cgroups of the pods that killed agents of the session have left."""
    yield
    hierarchy = find_hierarchy(Path("/proc/self/mountinfo").read_text())
    if hierarchy is None:
        return
    for name in (("kubepods",), ("kubepods", "burstable"), ("kubepods", "besteffort")):
        for path in hierarchy.paths(name)[0].glob("pod*"):
            with contextlib.suppress(OSError, CgroupError):
                owner = os.getxattr(path, OWNER).decode()
                if Path(owner).is_relative_to(tmp_path_factory.getbasetemp()):
                    CgroupFiles(hierarchy, owner).remove((*name, path.name))


@pytest.fixture(scope="session", autouse=True)
def unmounted_roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unmount the root directories of the session's agents, each a shared mount of itself."""
    yield
    unmount_below(tmp_path_factory.getbasetemp())


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread() -> AsyncIterator[None]:
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()
