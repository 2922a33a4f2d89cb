"""A node with an eviction manager and fakes of its dependencies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeClock, FakePodDirectory, FakeRecorder, FakeStats, make_pod
from nodeagent.testing.context import make_config, make_context
from nodeagent_plugins.eviction.manager import EvictionManager
from tests.unit.plugins.eviction.usage import GI, disk, node_usage, pod_usage


class Node:
    """A manager with fakes of its dependencies; ``ticks`` gives each measurement a new time."""

    def __init__(self, tmp_path: Path, clock: FakeClock, **config: Any) -> None:
        config.setdefault("eviction_hard", {})
        config.setdefault("local_storage_capacity_isolation", False)
        self.pods, self.stats, self.recorder = FakePodDirectory(), FakeStats(), FakeRecorder()
        self.clock, self.plugins, self.woken = clock, PluginManager(), 0
        self.context: AgentContext = make_context(
            tmp_path,
            config=make_config(**config),
            clock=clock,
            pods=self.pods,
            stats=self.stats,
            recorder=self.recorder,
        )
        self.context.trigger_node_status = self._wake_node
        self.manager = EvictionManager(self.context, self.plugins)
        self._time = 0

    def _wake_node(self) -> None:
        self.woken += 1

    def has(self, name: str, *, critical: bool = False, priority: int = 0, spec: Any = None, **use: Any) -> Pod:
        """Add a pod with its usage."""
        pod = make_pod(name, **(spec or {"containers": ["main"]}), priority=2_000_000_000 if critical else priority)
        self.pods.add(pod)
        self.stats.pod_usage[pod.uid] = pod_usage(pod, **use)
        return pod

    def shows(self, memory: int = 8 * GI, **parts: Any) -> None:
        """Set the measurements of the node."""
        self._time += 1
        disks = {name: disk(available, time=self._time) for name, available in parts.items() if name.endswith("fs")}
        self.stats.node_usage = node_usage(memory, time=self._time, **{**parts, **disks})

    def evicted(self) -> list[str]:
        return [kill.uid.removeprefix("uid-") for kill in self.pods.kills]


MakeNode = Callable[..., Node]


def plugin(node: Node, name: str, **hooks: Callable[..., Awaitable[Any]]) -> None:
    """Register a plugin with the given hook functions."""
    holder = type("Plugin", (), {hook: staticmethod(hookimpl(function)) for hook, function in hooks.items()})
    node.plugins.register(holder(), name=name)
