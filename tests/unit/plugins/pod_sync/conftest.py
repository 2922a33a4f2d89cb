"""Fixtures: a syncer with fakes of its dependencies, driven like a pod worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import SyncOutcome
from nodeagent.contracts.runtime import ContainerConfig, SandboxConfig
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock, FakeRuntime
from nodeagent.testing.context import make_context
from nodeagent_plugins.pod_sync.syncer import BundledPodSyncer


class HookCaller:
    """Hooks without implementations; records each notification."""

    def __init__(self) -> None:
        self.announced: list[tuple[str, str]] = []
        self.changes: dict[str, Any] = {}

    async def notify(self, hook: str, **arguments: Any) -> None:
        container = arguments.get("container")
        self.announced.append((hook, container.name if container is not None else arguments["container_name"]))

    async def call_chain(self, hook: str, name: str, value: Any, **arguments: Any) -> Any:
        change = self.changes.get(hook)
        return value if change is None else change(value)


class Bench:
    """One node with the syncer under test."""

    def __init__(self, context: AgentContext, tmp_path: Path) -> None:
        self.context = context
        self.runtime: FakeRuntime = context.runtime  # type: ignore[assignment]
        self.clock: FakeClock = context.clock  # type: ignore[assignment]
        self.log_root = tmp_path / "log"
        self.hooks = HookCaller()
        self.binds: list[tuple[str, str]] = []
        self.restart_agent()

    def restart_agent(self) -> None:
        """Drop the state in memory."""
        self.syncer = BundledPodSyncer(self.context, self.hooks, log_root=self.log_root, bind=self._bind)

    def _bind(self, source: Path, target: Path) -> None:
        self.binds.append((source, target))

    async def sync(self, pod: Pod, times: int = 1) -> SyncOutcome:
        for _ in range(times):
            outcome = await self.syncer.sync_pod(pod, pod.status, self.runtime.pod(pod.uid))
        return outcome

    async def terminate(self, pod: Pod, grace_seconds: int | None = None) -> SyncOutcome:
        return await self.syncer.sync_terminating(pod, self.runtime.pod(pod.uid), grace_seconds)

    @property
    def calls(self) -> list[str]:
        """Return the names of the runtime calls."""
        return [call.method for call in self.runtime.calls]

    def reasons(self) -> list[str]:
        return self.context.recorder.reasons()  # type: ignore[attr-defined,no-any-return]

    def notes(self, reason: str) -> list[str]:
        return [event.note for event in self.context.recorder.of(reason)]  # type: ignore[attr-defined]

    def made(self) -> list[ContainerConfig]:
        """Return the configurations of the created containers, in order."""
        return [call.arguments[1] for call in self.runtime.called("create_container")]

    def sandboxes(self) -> list[SandboxConfig]:
        return [call.arguments[0] for call in self.runtime.called("run_sandbox")]

    def id_of(self, pod: Pod, name: str) -> str:
        """Return the ID of the latest container with the name *name*."""
        found = self.runtime.pod(pod.uid).newest(name)
        assert found is not None, name
        return found.id


@pytest.fixture
def resolver(tmp_path: Path) -> Path:
    path = tmp_path / "resolv.conf"
    path.write_text("search one.test two.test.\nnameserver 192.0.2.1\noptions ndots:2 timeout:1\n")
    return path


@pytest.fixture
def make_bench(tmp_path: Path, clock: FakeClock, resolver: Path):  # type: ignore[no-untyped-def]
    from nodeagent.testing.context import make_config

    def make(*, context: dict[str, Any] | None = None, **config: Any) -> Bench:
        settings = make_config(**{"resolv_conf": str(resolver), **config})
        return Bench(make_context(tmp_path, config=settings, clock=clock, **(context or {})), tmp_path)

    return make


@pytest.fixture
def bench(make_bench) -> Bench:  # type: ignore[no-untyped-def]
    return make_bench()
