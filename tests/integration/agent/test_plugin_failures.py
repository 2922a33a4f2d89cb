"""Tests for plugins that hang, block the event loop, exit or fail: the node stays Ready and other pods run."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.integration.agent.conftest import Node
from tests.integration.plugins.test_example_policy import Environment
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until

FAILURES = {
    "hangs": "await asyncio.Event().wait()",
    "blocks": "time.sleep(60)",
    "swallows": """
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
    """,
    "exits": "raise SystemExit(3)",
    "raises": "raise OSError('no database')",
}
PLUGIN = """
import asyncio
import time

from nodeagent import hookimpl


@hookimpl
async def nodeagent_permit_pod(pod):
    if pod.name == "{name}":
        if True:
            {body}
"""
BROKEN = """
from nodeagent import hookimpl


@hookimpl
def nodeagent_configure(config):
    raise RuntimeError("no license")
"""


@pytest.fixture(scope="module")
def node(containerd, tmp_path_factory):
    directory = tmp_path_factory.mktemp("fail")
    environment = Environment(directory / "venv")
    for name, body in FAILURES.items():
        environment.add_module(name, PLUGIN.format(name=name, body=body.strip()))
    environment.add_module("broken", BROKEN)
    api, agent = ApiServer(directory), NodeAgent(directory, containerd.endpoint)
    agent.api, agent.python = api, str(environment.python)
    started = Node(containerd, api, agent)
    try:
        api.start()
        agent.start()
        yield started
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


def plugins(node: Node) -> dict[str, Any]:
    command = [node.agent.python, "-m", "nodeagent", "plugins", "list", "-o", "json", "--root-dir"]
    done = subprocess.run([*command, str(node.agent.root)], capture_output=True, check=False, timeout=60)
    report = json.loads(done.stdout)
    assert report["running"]
    return {plugin["name"]: plugin for plugin in report["plugins"]}


@pytest.mark.parametrize("name", FAILURES)
def test_other_pods_run_while_a_plugin_fails_and_it_is_named(node: Node, name: str) -> None:
    node.api.create_pod(simple_pod(name, nodeName="node-1"))
    node.api.create_pod(simple_pod(f"beside-{name}", nodeName="node-1"))

    node.phase(f"beside-{name}", "Running")

    wait_until(lambda: any(call["failures"] for call in plugins(node)[name]["calls"]), "the failure is reported")
    assert plugins(node)[name]["lastError"].startswith(f"plugin {name}: nodeagent_permit_pod")
    assert node.agent.alive()
    node.remove(name, f"beside-{name}")


def test_plugin_that_fails_to_start_is_skipped_and_listed(node: Node) -> None:
    broken = plugins(node)["broken"]

    assert broken["state"].startswith("failed: plugin broken: nodeagent_configure failed: RuntimeError('no license')")
    assert broken["hooks"] == []


def test_blocking_plugin_is_an_event_of_the_node(node: Node) -> None:
    def reported() -> bool:
        return any(
            event["reason"] == "EventLoopBlocked" and "plugin blocks" in event["note"]
            for event in node.api.events("node-1")
        )

    wait_until(reported, "the event of the node")
