"""Tests for graceful node shutdown: order of pods, and status updates before the lock is released."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nodeagent.testing.clock import eventually
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, simple_pod, wait_until
from tests.integration.shutdown.logind import LoginManager, message_bus, serve

LATE = 'trap "sleep 2; exit 0" TERM; while :; do sleep 0.1; done'
STUBBORN = 'trap "" TERM; while :; do sleep 0.1; done'
CRITICAL = {"priorityClassName": "system-node-critical", "priority": 2000001000}
PROMPT = 'trap "exit 0" TERM; while :; do sleep 0.1; done'


class ShuttingNode:
    """Agent that holds a lock of a fake logind."""

    def __init__(self, api: ApiServer, agent: NodeAgent, login: LoginManager) -> None:
        self.api, self.agent, self.login = api, agent, login

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        try:
            return await asyncio.to_thread(wait_until, condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.agent.tail()}") from None

    def ready(self) -> tuple[str, str]:
        node = self.api.get("/api/v1/nodes/node-1")
        conditions = node["status"].get("conditions") or () if node["kind"] == "Node" else ()
        return next(((c["status"], c["message"]) for c in conditions if c["type"] == "Ready"), ("", ""))

    def phase(self, name: str) -> str:
        return str((self.api.pod(name) or {}).get("status", {}).get("phase", ""))


@pytest_asyncio.fixture
async def node(
    containerd: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[ShuttingNode]:
    """Node with the shutdown periods of the test's parameter."""
    api, agent, login = ApiServer(tmp_path), NodeAgent(tmp_path, containerd.endpoint), LoginManager(60)
    with message_bus(tmp_path) as address:
        bus = await serve(address, ("org.freedesktop.login1", "/org/freedesktop/login1", login))
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
        agent.api = api
        built = ShuttingNode(api, agent, login)
        try:
            await asyncio.to_thread(api.start)
            await asyncio.to_thread(lambda: agent.start(**request.param))
            await eventually(login.held, within_seconds=30)
            await built.until(lambda: built.ready()[0] == "True", "the node is Ready")
            yield built
        finally:
            await asyncio.to_thread(agent.stop)
            await asyncio.to_thread(api.stop)
            await asyncio.to_thread(containerd.remove_pods)
            login.close()
            bus.disconnect()
            await bus.wait_for_disconnect()


@pytest.mark.parametrize(
    "node", [{"shutdownGracePeriod": "20s", "shutdownGracePeriodCriticalPods": "5s"}], indirect=True, ids=["one period"]
)
@pytest.mark.row("config.shutdownGracePeriod", "config.shutdownGracePeriodCriticalPods")
async def test_pods_terminate_in_order_before_the_shutdown(node: ShuttingNode) -> None:
    api, login = node.api, node.login
    graces = {"web": 30, "dns": 30}
    api.create_pod(simple_pod("web", LATE, nodeName="node-1", terminationGracePeriodSeconds=30))
    api.create_pod(simple_pod("dns", PROMPT, nodeName="node-1", terminationGracePeriodSeconds=30, **CRITICAL))
    for name in graces:
        await node.until(lambda name=name: node.phase(name) == "Running", f"{name} runs")
    rehearsed = await node.until(lambda: _rehearse(node.agent.root, 2), "the plan knows both pods")
    assert [(g["waitsSeconds"], [(p["name"], p["graceSeconds"]) for p in g["pods"]]) for g in rehearsed["groups"]] == [
        (15, [("web", 15)]),
        (5, [("dns", 5)]),
    ]

    login.prepare(True)
    await node.until(lambda: node.ready()[0] == "False", "the node is not Ready")
    assert "node is shutting down" in node.ready()[1]
    assert login.held() == [True]
    api.create_pod(simple_pod("late", nodeName="node-1"))
    await eventually(lambda: login.held() == [False], within_seconds=30)

    pods = {name: api.pod(name)["status"] for name in graces}  # Without waiting: they were updated before.
    for status in pods.values():
        assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
        assert status["message"] == "Pod was terminated in response to imminent node shutdown."
        [target] = [c for c in status["conditions"] if c["type"] == "DisruptionTarget"]
        assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    ended = {name: s["containerStatuses"][0]["state"]["terminated"] for name, s in pods.items()}
    assert {name: state["exitCode"] for name, state in ended.items()} == {"web": 0, "dns": 0}
    assert ended["web"]["finishedAt"] <= ended["dns"]["finishedAt"]
    rejected = await node.until(lambda: node.phase("late") == "Failed" and api.pod("late"), "the new pod is rejected")
    assert rejected["status"]["reason"] == "NodeShutdown"
    state = json.loads((node.agent.root / "graceful_node_shutdown_state").read_text())
    assert state["startTime"] <= state["endTime"]

    login.prepare(False)
    await node.until(lambda: node.ready()[0] == "True", "the node is Ready again")
    await eventually(lambda: login.held() == [False, True])
    notes = {event["note"] for event in api.events("node-1") if event["reason"] == "Shutdown"}
    assert "Shutdown manager detected shutdown event" in notes


@pytest.mark.parametrize(
    "node",
    [
        {
            "shutdownGracePeriodByPodPriority": [
                {"priority": 2000000000, "shutdownGracePeriodSeconds": 8},
                {"priority": 0, "shutdownGracePeriodSeconds": 8},
            ]
        }
    ],
    indirect=True,
    ids=["by priority"],
)
@pytest.mark.row(
    "config.shutdownGracePeriodByPodPriority",
    "type.ShutdownGracePeriodByPodPriority.priority",
    "type.ShutdownGracePeriodByPodPriority.shutdownGracePeriodSeconds",
)
async def test_stubborn_pod_does_not_shorten_later_periods(node: ShuttingNode) -> None:
    api, login = node.api, node.login
    api.create_pod(simple_pod("web", STUBBORN, nodeName="node-1", terminationGracePeriodSeconds=600))
    api.create_pod(simple_pod("dns", PROMPT, nodeName="node-1", terminationGracePeriodSeconds=600, **CRITICAL))
    for name in ("web", "dns"):
        await node.until(lambda name=name: node.phase(name) == "Running", f"{name} runs")

    login.prepare(True)
    await eventually(lambda: login.held() == [False], within_seconds=30)

    assert api.pod("dns")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert api.pod("dns")["status"]["reason"] == "Terminated"
    assert node.phase("web") == "Running"  # Its grace period of eight seconds exceeds its share.
    ended = await node.until(lambda: node.phase("web") == "Failed" and api.pod("web"), "the stubborn pod is killed")
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def _rehearse(root: Path, pods: int) -> Any:
    command = [sys.executable, "-m", "nodeagent", "shutdown", "rehearse", "--root-dir", str(root), "-o", "json"]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(shown.stdout) if shown.returncode == 0 else {"pods": 0}
    return report if report["pods"] == pods else None
