"""Fixtures of the CRI tests: a client of the private containerd, and pods that are removed after the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import (
    LABEL_CONTAINER_NAME,
    LABEL_POD_UID,
    ContainerConfig,
    ContainerState,
    RuntimeContainerStatus,
    SandboxConfig,
)
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.image_service import CriImageService
from tests.integration.containerd import CONTAINERD_2, LATER, Containerd
from tests.integration.images import BUSYBOX_IMAGE


@dataclass
class Pods:
    """Factory of pods and containers with minimal configuration."""

    runtime: CriRuntime
    logs: Path
    sandboxes: dict[str, SandboxConfig] = field(default_factory=dict)

    async def sandbox(self, name: str = "web", **settings: object) -> str:
        uid = f"uid-{name}"
        config = SandboxConfig(
            name=name, uid=uid, namespace="default", labels={LABEL_POD_UID: uid}, log_directory=str(self.logs / name)
        )
        config = replace(config, **settings)
        sandbox_id = await self.runtime.run_sandbox(config)
        self.sandboxes[sandbox_id] = config
        return sandbox_id

    async def container(self, sandbox_id: str, script: str, *, start: bool = True, **settings: object) -> str:
        sandbox = self.sandboxes[sandbox_id]
        config = ContainerConfig(
            name="main",
            attempt=0,
            image=BUSYBOX_IMAGE,
            command=("sh", "-c", script),
            labels={LABEL_POD_UID: sandbox.uid, LABEL_CONTAINER_NAME: "main"},
            log_path="main.log",
        )
        container_id = await self.runtime.create_container(sandbox_id, replace(config, **settings), sandbox)
        if start:
            await self.runtime.start_container(container_id)
        return container_id

    def log(self, sandbox_id: str, name: str = "main.log") -> str:
        return (Path(self.sandboxes[sandbox_id].log_directory) / name).read_text()


async def until(condition: Callable[[], Awaitable[object]], seconds: float = 20) -> None:
    """Wait until *condition* returns a true value, and return it; fail on timeout."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.02)


async def exited(cri: CriRuntime, container_id: str) -> RuntimeContainerStatus:
    """Wait until a container has exited, and return its status."""

    async def has_exited() -> bool:
        return (await cri.container_status(container_id)).state is ContainerState.EXITED

    await until(has_exited)
    return await cri.container_status(container_id)


VERSIONS = {"installed": None, "1.7": LATER, "2": CONTAINERD_2}


@pytest.fixture(scope="session", params=[name for name, path in VERSIONS.items() if path is None or path.exists()])
def containerd(request: pytest.FixtureRequest) -> Iterator[Containerd]:
    """A private containerd for the session, of the installed version and of later ones."""
    with Containerd(executables=VERSIONS[request.param]) as daemon:
        yield daemon


@pytest.fixture
async def cri(containerd: Containerd) -> AsyncIterator[CriRuntime]:
    runtime = CriRuntime(Connection(containerd.endpoint, timeout_seconds=30), SystemClock())
    yield runtime
    await runtime.close()


@pytest.fixture
async def cri_images(cri: CriRuntime) -> CriImageService:
    return CriImageService(cri.connection)


@pytest.fixture
async def pods(cri: CriRuntime, tmp_path: Path) -> AsyncIterator[Pods]:
    pods = Pods(cri, tmp_path)
    yield pods
    for sandbox_id in pods.sandboxes:
        await cri.stop_sandbox(sandbox_id)
        await cri.remove_sandbox(sandbox_id)
