"""Tests for the shutdown plan."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from nodeagent.contracts.configuration import seconds
from nodeagent.contracts.shutdown import ShutdownPeriods, ShutdownPlan, ShutdownPod, plan_file, plan_from_json
from nodeagent.testing import FakeClock, load_plugin, make_config, make_context, make_pod
from nodeagent_plugins import shutdown


async def test_plan_follows_the_pods(tmp_path: Path, clock: FakeClock) -> None:
    context = make_context(tmp_path, clock=clock, config=make_config(shutdown_grace_period=seconds(30)))
    manager = load_plugin(shutdown, name="shutdown", context=context)
    loops = [response.value[0] for response in manager.provide_all("nodeagent_provide_background_loops")]
    assert sorted(loop.name for loop in loops) == ["shutdown", "shutdown plan"]
    running = asyncio.create_task(next(loop for loop in loops if loop.name == "shutdown plan").run())
    await clock.advance(1)
    periods = ShutdownPeriods([(0, 30), (2_000_000_000, 0)])
    assert plan_from_json(json.loads(plan_file(tmp_path).read_text())) == ShutdownPlan(periods, [])

    web, dns = make_pod("web"), make_pod("dns", priority=5)
    for pod in (web, dns):
        context.pods.add(pod)  # type: ignore[attr-defined]
        await manager.notify("nodeagent_pod_admitted", pod=pod)
    await clock.advance(1)

    expected = [ShutdownPod("default", "dns", "uid-dns", 5, 30), ShutdownPod("default", "web", "uid-web", 0, 30)]
    assert plan_from_json(json.loads(plan_file(tmp_path).read_text())) == ShutdownPlan(periods, expected)
    context.pods.ended.add(dns.uid)  # type: ignore[attr-defined]
    await manager.notify("nodeagent_pod_terminated", pod=dns)
    await clock.advance(1)
    assert plan_from_json(json.loads(plan_file(tmp_path).read_text())).pods == expected[1:]

    next(plugin for plugin in loops if plugin.name == "shutdown plan").report_problem("logind is away")  # type: ignore[attr-defined]
    await clock.advance(1)
    assert plan_from_json(json.loads(plan_file(tmp_path).read_text())).problem == "logind is away"
    running.cancel()


async def test_plan_is_written_without_a_grace_period(tmp_path: Path) -> None:
    manager = load_plugin(shutdown, name="shutdown", context=make_context(tmp_path))

    loops = [response.value[0].name for response in manager.provide_all("nodeagent_provide_background_loops")]

    assert loops == ["shutdown plan"]
