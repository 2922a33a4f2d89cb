"""Tests for the in-process agent: pods run with the hooks of a plugin."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nodeagent import hookimpl
from nodeagent.contracts.local import LocalQuery, NoArguments
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import PluginError
from nodeagent.testing import make_container, make_pod
from nodeagent.testing.agent import running_agent


class Guard:
    """Plugin that records its calls and rejects pods named ``bad``."""

    def __init__(self):
        self.calls = []
        self.open = False

    @hookimpl
    def nodeagent_settings_schema(self):
        return {"type": "object", "properties": {"reason": {"type": "string"}}, "additionalProperties": False}

    @hookimpl
    def nodeagent_configure(self, context):
        self.reason = context.plugin_settings.get("guard", {}).get("reason", "Bad")

    @hookimpl
    async def nodeagent_admit_pod(self, pod):
        if pod.name == "late" and not self.open:
            return Rejection("Closed", "not yet", retry=True)
        return Rejection(self.reason, "no") if pod.name == "bad" else None

    @hookimpl
    async def nodeagent_container_started(self, pod, container):
        self.calls.append(("started", pod.name, container.name))

    @hookimpl
    async def nodeagent_pod_terminated(self, pod):
        self.calls.append(("terminated", pod.name))


async def test_pod_runs_and_terminates_with_the_hooks_of_the_plugin(tmp_path):
    guard = Guard()
    async with running_agent(tmp_path, {"guard": guard}) as agent:
        await agent.run_pods(make_pod("web", containers=[make_container("main")]))
        assert agent.status("web").phase == "Running"
        assert "Started" in [event.reason for event in agent.events("web")]

        await agent.remove_pods("web")
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()

    assert guard.calls == [("started", "web", "main"), ("terminated", "web")]


async def test_pod_waits_until_the_plugin_admits_it(tmp_path):
    guard = Guard()
    async with running_agent(tmp_path, {"guard": guard}) as agent:
        agent.add_pods(make_pod("late"))
        await agent.run_pods(make_pod("good"))
        assert agent.status("late").phase == ""

        guard.open = True
        await agent.wait_until(lambda: agent.status("late").phase == "Running")


async def test_rejected_pod_has_the_reason_of_the_plugins_settings(tmp_path):
    async with running_agent(tmp_path, {"guard": Guard()}, settings={"guard": {"reason": "Forbidden"}}) as agent:
        await agent.run_pods(make_pod("bad"), make_pod("good"))

        assert (agent.status("bad").phase, agent.status("bad").reason) == ("Failed", "Forbidden")
        assert agent.status("good").phase == "Running"
        assert (await agent.query("why", namespace="default", name="bad"))["plugin"] == "guard"


async def test_invalid_settings_and_failing_plugins_are_errors(tmp_path):
    class Fails:
        @hookimpl
        def nodeagent_configure(self):
            raise ValueError("no license")

    with pytest.raises(AssertionError, match=r"guard\.reason: 1 is not of type 'string'"):
        async with running_agent(tmp_path, {"guard": Guard()}, settings={"guard": {"reason": 1}}):
            pass
    with pytest.raises(PluginError, match="no license"):
        async with running_agent(tmp_path, {"fails": Fails()}):
            pass


class Exits:
    """Plugin whose query and tasks raise ``SystemExit``."""

    @hookimpl
    def nodeagent_provide_local_queries(self):
        async def handle(_):
            raise SystemExit(3)

        return [LocalQuery("exits.now", NoArguments, handle)]

    @hookimpl
    async def nodeagent_pod_admitted(self, pod):
        async def work():
            raise SystemExit(4)

        await asyncio.gather(work())


async def test_agent_runs_while_tasks_of_a_plugin_exit(tmp_path):
    async with running_agent(tmp_path, {"exits": Exits()}) as agent:
        await agent.run_pods(make_pod("web"))

        assert agent.status("web").phase == "Running"
        (info,) = [each for each in agent.plugins.plugins() if each.name == "exits"]
        assert info.stats["nodeagent_pod_admitted"].failures == 1
        with pytest.raises(Exception, match=r"raised SystemExit\(3\)"):
            await agent.query("exits.now")
