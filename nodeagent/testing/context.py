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
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError, Problem
from nodeagent.model.meta import ObjectReference
from nodeagent.testing.api import FakeApi
from nodeagent.testing.clock import FakeClock
from nodeagent.testing.fakes import (
    FakeCgroups,
    FakeObjects,
    FakePodDirectory,
    FakeProber,
    FakePuller,
    FakeStats,
    FakeVolumes,
)
from nodeagent.testing.images import FakeImages
from nodeagent.testing.recorder import FakeRecorder
from nodeagent.testing.runtime import FakeRuntime


def make_context(
    tmp_path: Path,
    *,
    node_name: str = "node-1",
    config: NodeAgentConfiguration | None = None,
    clock: FakeClock | None = None,
    api: FakeApi | None = None,
    node: dict[str, Any] | None = None,
    **components: Any,
) -> AgentContext:
    """Return a context with fake components, except those in *components*, named as in ``AgentContext``.

    :param tmp_path: the root directory.
    :param config: the configuration; see :func:`make_config` to change fields of the default.
    :param api: a fake API client; without it, the node is standalone.
    :param node: the last known node object.
    """
    config = config or NodeAgentConfiguration()
    clock = clock or FakeClock()
    settings = NodeSettings(node_name=node_name, root_dir=str(tmp_path), cert_dir=str(tmp_path / "pki"))
    direct: dict[str, Any] = {
        "gates": build_gates(config.feature_gates),
        "settings": settings,
        "effective": Effective(config, components.get("settings", settings)),
        "connect_api": _no_connection,
        "tasks": TaskOwner("test"),
        "plugin_settings": {},
        "new_api": (lambda _qps, _burst, *, deadline_seconds=None: api) if api is not None else None,
    }
    context = AgentContext(
        config=config,
        clock=clock,
        api=api,
        node=lambda: node,
        node_reference=lambda: ObjectReference(kind="Node", name=node_name, uid=node_name),
        **{field: components.pop(field, default) for field, default in direct.items()},
    )
    images = components.get("images") or FakeImages()
    fakes: dict[str, Any] = {
        "recorder": FakeRecorder(),
        "runtime": FakeRuntime(clock),
        "images": images,
        "objects": FakeObjects(clock),
        "cgroups": FakeCgroups(),
        "volumes": FakeVolumes(),
        "puller": FakePuller(images) if isinstance(images, FakeImages) else FakePuller(),
        "pods": FakePodDirectory(),
        "prober": FakeProber(),
        "stats": FakeStats(),
    }
    for name, component in {**fakes, **components}.items():
        setattr(context, name, component)
    return context


def _no_connection(kubeconfig: Path) -> ApiConnection:
    raise ConfigError([Problem(str(kubeconfig), "", None, "cannot be used without connect_api=…")])


def make_config(**fields: Any) -> NodeAgentConfiguration:
    """Return the default configuration with *fields*, by their Python names."""
    return msgspec.structs.replace(NodeAgentConfiguration(), **fields)
