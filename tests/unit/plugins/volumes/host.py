"""Node whose agent is restarted by tests of persistent volumes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.contracts.api import NODES, PERSISTENT_VOLUME_CLAIMS
from nodeagent.contracts.context import AgentContext
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeApi, FakeClock, FakeRecorder, make_context
from nodeagent.testing.persistent_volumes import FakeClaims, FakePersistentKind
from nodeagent_plugins.volumes.manager import Manager

from .conftest import FakeMounter, pod_with


def claim_pod(name: str = "web", claim: str = "data") -> Pod:
    return pod_with({"name": "v", "persistentVolumeClaim": {"claimName": claim}}, name=name)


class Host:
    """A node whose agent can be restarted: the disk, the API and the driver remain."""

    def __init__(self, root: Path, clock: FakeClock, api: FakeApi | None, **components: Any) -> None:
        self.components = components
        """Further components of the context."""
        self.root, self.clock, self.api = root, clock, api
        self.recorder, self.claims = FakeRecorder(), FakeClaims()
        self.node: dict[str, Any] = {"metadata": {"name": "node-1"}, "status": {}}
        self.listeners: list[Any] = []
        self.statuses = 0
        self.kind = FakePersistentKind(root, lambda uid: uid in self.running)
        self.running: set[str] = set()
        self.sources_ready = True
        self.tasks: list[asyncio.Task[Any]] = []
        self.manager: Manager
        self.context: AgentContext

    def start(self) -> Manager:
        """Start the agent."""

        def count() -> None:
            self.statuses += 1

        self.context = make_context(
            self.root,
            clock=self.clock,
            api=self.api,
            recorder=self.recorder,
            node=self.node,
            trigger_node_status=count,
            on_node_change=self.listeners.append,
            **self.components,
        )
        self.context.pods.all_sources_ready = self.sources_ready  # type: ignore[misc]
        self.manager = Manager(self.context, [], FakeMounter(), [self.kind], self.claims)
        self.tasks.append(asyncio.create_task(self.manager.run()))
        return self.manager

    async def kill(self) -> None:
        """End the agent without any cleanup."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        self.listeners.clear()
        await self.context.tasks.close()

    async def begin(self, pod: Pod) -> asyncio.Task[Any]:
        """Start a pod sync and let its operations run."""
        self.running.add(pod.uid)
        task = asyncio.create_task(self.manager.prepare(pod))
        self.tasks.append(task)
        await self.clock.advance(0)
        return task

    async def end(self, pod: Pod) -> None:
        """Release the volumes of a terminated pod."""
        self.running.discard(pod.uid)
        await self.manager.release(pod.uid)

    def report(self, *, attached: bool = True, device_path: str = "") -> None:
        """Update the node status as the reporter and the controller do."""
        names = list(self.manager.volumes_in_use() or ())
        status: dict[str, Any] = {"volumesInUse": names}
        if attached:
            status["volumesAttached"] = [{"name": name, "devicePath": device_path} for name in names]
        self.node["status"] = status
        assert self.api is not None
        self.api.put(NODES, self.node)
        for listener in self.listeners:
            listener()

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.kind.calls]


@asynccontextmanager
async def running(
    root: Path, clock: FakeClock, api: FakeApi | None = None, *, attach: bool = False, **components: Any
) -> AsyncIterator[Host]:
    """Run a node with the claim ``data``, and check at the end that no call violated the order of a driver.

    :param attach: volumes have to be attached; requires an API.
    """
    host = Host(root, clock, api, **components)
    spec = host.claims.add("data")
    if api is not None:
        api.put(NODES, host.node)
        api.put(PERSISTENT_VOLUME_CLAIMS, msgspec.to_builtins(spec.claim))
    host.kind.needs_attach = attach
    host.start()
    await clock.advance(0)
    try:
        yield host
    finally:
        host.kind.recover()
        await host.kill()
    assert host.kind.violations == []
