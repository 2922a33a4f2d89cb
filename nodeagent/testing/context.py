"""Agent context with fake components."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.aio import TaskOwner
from nodeagent.config.effective import Effective
from nodeagent.config.features import build_gates
from nodeagent.contracts.api import ApiConnection
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.meta import ObjectReference
from nodeagent.testing.api import FakeApi
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.devices import FakeDevices
from nodeagent.testing.fakes import (
    FakeAllocations,
    FakeCgroups,
    FakeObjects,
    FakePodDirectory,
    FakeProber,
    FakePuller,
    FakeStats,
    FakeSyncer,
    FakeVolumes,
)
from nodeagent.testing.images import FakeImages
from nodeagent.testing.recorder import FakeRecorder
from nodeagent.testing.runtime import FakeRuntime


class FakeContext(ServerContext, frozen=False):  # type: ignore[misc]
    """Context of the last stage, whose fields a test can replace; ``context.stage(…)`` returns an earlier one."""


def make_context(
    tmp_path: Path,
    *,
    node_name: str = "node-1",
    config: NodeAgentConfiguration | None = None,
    clock: FakeClock | None = None,
    api: FakeApi | None = None,
    node: dict[str, Any] | None = None,
    **components: Any,
) -> FakeContext:
    """Return a context with fake components, except those in *components*, named as in ``ServerContext``.

    :param tmp_path: the root directory.
    :param config: the configuration; see :func:`make_config` to change fields of the default.
    :param api: a fake API client; without it, the node is standalone.
    :param node: the last known node object.
    """
    config = config or NodeAgentConfiguration()
    clock = clock or FakeClock()
    settings = NodeSettings(node_name=node_name, root_dir=str(tmp_path), cert_dir=str(tmp_path / "pki"))
    images = components.get("images") or FakeImages()
    runtime = components.get("runtime") or FakeRuntime(clock)
    gates = build_gates(config.feature_gates)
    fields: dict[str, Any] = {
        "config": config,
        "clock": clock,
        "gates": gates,
        "settings": settings,
        "effective": Effective(config, components.get("settings", settings), components.get("gates", gates)),
        "connect_api": _no_connection,
        "tasks": TaskOwner("test"),
        "api": api,
        "new_api": (lambda _qps, _burst, *, deadline_seconds=None: api) if api is not None else None,
        "runtime": runtime,
        "images": images,
        "recorder": FakeRecorder(),
        "node_reference": lambda: ObjectReference(kind="Node", name=node_name, uid=node_name),
        "pods": FakePodDirectory(),
        "allocations": FakeAllocations(),
        "node": lambda: node,
        "on_node_change": lambda listener: None,
        "wait_for_node": _return_immediately,
        "trigger_node_status": lambda: None,
        "runtime_status": lambda: runtime.status(),  # noqa: PLW0108 - runtimes of tests may lack the method
        "objects": FakeObjects(clock),
        "cgroups": FakeCgroups(),
        "volumes": FakeVolumes(),
        "devices": FakeDevices(),
        "claims": None,
        "puller": FakePuller(images) if isinstance(images, FakeImages) else FakePuller(),
        "prober": FakeProber(),
        "stats": FakeStats(),
        "syncer": FakeSyncer(),
        "flush_statuses": _flush_immediately,
        "queries": {},
    }
    return FakeContext(**{**fields, **components})


async def _return_immediately() -> None:
    """Return immediately; the node object is known."""


async def _flush_immediately(_seconds: float) -> None:
    """Return immediately; no status is pending."""


def _no_connection(kubeconfig: Path) -> ApiConnection:
    raise ConfigError([Problem(str(kubeconfig), "", None, "cannot be used without connect_api=…")])


def make_config(**fields: Any) -> NodeAgentConfiguration:
    """Return the default configuration with *fields*, by their Python names."""
    return msgspec.structs.replace(NodeAgentConfiguration(), **fields)
