"""Tests for the agent: its certificate, and its start with a failing runtime."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from nodeagent import agent as module
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeRuntime, make_container, make_pod
from nodeagent.testing import agent as agent_module
from nodeagent.testing.agent import running_agent


@pytest.mark.parametrize(
    ("config", "is_generated"),
    [
        ({"enable_server": True}, True),
        ({"enable_server": True, "tls_cert_file": "/c"}, True),
        ({"enable_server": True, "tls_cert_file": "/c", "tls_private_key_file": "/k"}, False),
        ({"enable_server": True, "server_tls_bootstrap": True}, False),
        ({"enable_server": False}, False),
    ],
)
async def test_certificate_is_generated_for_a_server_without_one(tmp_path, monkeypatch, config, is_generated):
    generated = []

    async def ensure(_directory, names):
        generated.append(names)

    async def serve(_self):
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "ensure_self_signed", ensure)
    monkeypatch.setattr(module.AgentServer, "run", serve)
    monkeypatch.setattr(module, "serving_is_requested", lambda config, _settings: config.server_tls_bootstrap)

    async with running_agent(tmp_path, {}, config=config):
        pass

    assert generated == ([["node-1", "localhost", "127.0.0.1"]] if is_generated else [])


async def test_containers_are_listed_before_the_pods_are_started(tmp_path, monkeypatch):
    calls, listed = [], FakeRuntime.list_sandboxes

    async def list_sandboxes(self, pod_uid=""):
        calls.append("list")
        if len(calls) < 3:
            raise RuntimeUnavailable("not ready")
        return await listed(self, pod_uid)

    monkeypatch.setattr(FakeRuntime, "list_sandboxes", list_sandboxes)
    async with running_agent(tmp_path, {}) as agent:
        assert len(calls) >= 3, "the sources start after the first list"
        await agent.run_pods(make_pod("web", containers=[make_container("main")]))

        assert agent.status("web").phase == "Running"


@pytest.mark.parametrize(("minor", "is_checked"), [(31, False), (32, True)])
async def test_loops_are_health_checks_since_1_32(tmp_path, monkeypatch, minor, is_checked):
    monkeypatch.setattr(module.PluginLoops, "health_checks", lambda _self: {"loop": lambda: "stuck"})
    load = agent_module._loaded

    def loaded(*arguments):
        return replace(load(*arguments), release=SelectedRelease(Release(1, minor)))

    monkeypatch.setattr(agent_module, "_loaded", loaded)
    async with running_agent(tmp_path, {}) as agent:
        assert ("loop" in agent.agent._loop_checks) == is_checked
