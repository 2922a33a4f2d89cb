"""Nodes with the out-of-process plugin of the tests."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import external_plugin
from tests.integration.agent.conftest import Node
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod

ROOT = Path(__file__).parents[3]
PLUGIN = [sys.executable, str(Path(external_plugin.__file__).with_name("__main__.py"))]


def pod(name: str, behavior: str = "admit", **spec: Any) -> dict[str, Any]:
    """Return a pod for which the plugin behaves as specified."""
    return simple_pod(name, nodeName="node-1", metadata={"annotations": {"plugin.test/behavior": behavior}}, **spec)


@contextlib.contextmanager
def running(containerd: Containerd, directory: Path, entries: dict[str, Any], **options: Any) -> Iterator[Node]:
    """Provide a node with plugins."""
    api, agent = ApiServer(directory), NodeAgent(directory, containerd.endpoint)
    agent.api = api
    agent.plugins = {"external_plugins": {"directory": str(directory / "s"), "plugins": entries}}
    agent.containment = options
    try:
        api.start()
        agent.start()
        yield Node(containerd, api, agent)
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def entry(directory: Path, *capabilities: str, **fields: Any) -> dict[str, Any]:
    """Return the settings of the plugin of this test."""
    environment = {"PYTHONPATH": f"{ROOT}:{ROOT / 'plugins'}", "GO": str(directory / "go")}
    return {
        "command": PLUGIN,
        "env": environment,
        "user": 0,
        "capabilities": list(capabilities),
        "restart": {"initialSeconds": 0.2},
        **fields,
    }
