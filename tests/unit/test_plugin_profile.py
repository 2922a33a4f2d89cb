"""Tests for ``nodeagent plugins profile``: CPU time and memory by plugin and line."""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path

import pytest

from nodeagent import local_client
from nodeagent.base.aio import SystemClock
from nodeagent.cli.main import main
from nodeagent.contracts.plugin_report import (
    PluginProfile,
    PluginProfileRequest,
    ProfiledAllocation,
    ProfiledCode,
    ProfiledHook,
)
from nodeagent.plugin_profile import PluginProfiler
from nodeagent.pluginmanager import PluginManager

LEAKING = """
from nodeagent import hookimpl

kept = []

@hookimpl
async def nodeagent_pod_terminated(pod):
    kept.append(bytearray(100_000))
    sum(number * number for number in range(30000))
"""


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "leaking_plugin.py").write_text(LEAKING)
    monkeypatch.syspath_prepend(str(tmp_path))
    manager = PluginManager()
    manager.register(importlib.import_module("leaking_plugin"), name="leaking")
    manager.register(object(), name="idle")
    yield manager
    sys.modules.pop("leaking_plugin", None)


async def profiled(plugins: PluginManager, name: str) -> PluginProfile:
    profiler = PluginProfiler(plugins, SystemClock())
    profiling = asyncio.create_task(profiler.profile(PluginProfileRequest(name, 0.15)))
    while not profiling.done():
        await plugins.notify("nodeagent_pod_terminated", pod=None)
        await asyncio.sleep(0)
    return await profiling


async def test_profile_names_the_lines_that_use_cpu_time_and_memory(plugins):
    profile = await profiled(plugins, "leaking")

    (hook,) = profile.hooks
    assert (hook.hook, hook.calls > 0) == ("nodeagent_pod_terminated", True)
    assert 0 < profile.cpu_seconds <= profile.agent_cpu_seconds
    assert profile.code[0].location.endswith("leaking_plugin.py:9")
    assert profile.allocations[0].location.endswith("leaking_plugin.py:8")
    assert profile.allocations[0].bytes >= 100_000
    assert profile.allocated_bytes >= profile.allocations[0].bytes


async def test_other_plugins_are_not_charged(plugins):
    profile = await profiled(plugins, "idle")

    assert (profile.cpu_seconds, profile.allocated_bytes, profile.hooks, profile.code) == (0, 0, [], [])
    assert profile.agent_cpu_seconds > 0


@pytest.mark.parametrize(
    ("plugin", "seconds", "message"),
    [
        ("nope", 1, "unknown plugin 'nope'; plugins are idle, leaking"),
        ("idle", 0, r"seconds: invalid value 0: must be in \(0, 300\]"),
        ("idle", 301, "seconds: invalid value 301"),
    ],
)
async def test_invalid_request_is_rejected(plugins, plugin, seconds, message):
    with pytest.raises(ValueError, match=message):
        await PluginProfiler(plugins, SystemClock()).profile(PluginProfileRequest(plugin, seconds))


def test_command_prints_the_profile(capsys, monkeypatch):
    profile = PluginProfile(
        plugin="leaking",
        seconds=30,
        cpu_seconds=1.5,
        agent_cpu_seconds=2.0,
        allocated_bytes=5000,
        hooks=[ProfiledHook("nodeagent_pod_terminated", 3, 1.25)],
        code=[ProfiledCode("/p/leaking.py:9", "work", 1.5)],
        allocations=[ProfiledAllocation("/p/leaking.py:8", 1, 5000)],
    )

    def query(root, name, arguments, into, *, seconds):
        assert (arguments, seconds) == (PluginProfileRequest("leaking", 30.0), 30.0)
        return profile

    monkeypatch.setattr(local_client, "query", query)

    assert main(["plugins", "profile", "leaking"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "Plugin leaking in 30 s: 1.500 s of CPU time (agent: 2.000 s), 5000 bytes allocated and still in use"
    )
    assert [line.split() for line in lines if line.startswith(("nodeagent_pod", "1.5000", "5000"))] == [
        ["nodeagent_pod_terminated", "3", "1.2500"],
        ["1.5000", "work", "/p/leaking.py:9"],
        ["5000", "1", "/p/leaking.py:8"],
    ]
