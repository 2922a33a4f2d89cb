"""A status holds the conditions that gates leave on, and is timed until it reached the API server."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.config.features import build_gates
from nodeagent.contracts.api import PODS
from nodeagent.errors import ApiUnavailable
from nodeagent.pluginmanager import PluginManager
from nodeagent.status.manager import SYNC_DURATION, StatusManager
from nodeagent.testing import FakeApi, FakeRuntime, eventually, make_pod


def total():
    return next(value for suffix, _, value, _ in SYNC_DURATION.family().rows if suffix == "_sum")


def make_manager(clock, api=None, **gates):
    return StatusManager(
        api=lambda: api,
        clock=clock,
        plugins=PluginManager(),
        probes=lambda container_id, kind: None,
        host_ips=lambda: ["10.0.0.1"],
        runtime_name=lambda: "fake",
        is_static=lambda pod: False,
        mirror_of=lambda pod: None,
        gates=build_gates(gates),
    )


async def test_the_time_of_a_change_is_kept_while_the_api_server_is_away(clock):
    api, runtime, pod = FakeApi(), FakeRuntime(clock), make_pod("web")
    await api.create(PODS, {"metadata": {"name": "web", "uid": pod.uid}}, "default")
    manager = make_manager(clock, api)
    runtime.start("main", pod)
    count, seconds = SYNC_DURATION.count(), total()
    api.fail("patch", ApiUnavailable("away"), times=1)
    sending = asyncio.create_task(manager.run())

    manager.update(pod, runtime.pod(pod.uid))
    await clock.settle()
    assert SYNC_DURATION.count() == count
    await clock.advance(20)
    await eventually(lambda: SYNC_DURATION.count() == count + 1)

    assert 0 < total() - seconds <= 20
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


@pytest.mark.parametrize(
    ("gate", "type_"),
    [
        pytest.param(gate, type_, marks=pytest.mark.row(f"gate.{gate}"))
        for gate, type_ in (
            ("PodReadyToStartContainersCondition", "PodReadyToStartContainers"),
            ("PodDisruptionConditions", "DisruptionTarget"),
        )
    ],
)
async def test_conditions_that_gates_switch_are_there_unless_switched_off(clock, gate, type_):
    runtime, pod = FakeRuntime(clock), make_pod("web")
    runtime.start("main", pod)

    shown = []
    for gates in ({}, {gate: False}):
        manager = make_manager(clock, **gates)
        manager.update(pod, runtime.pod(pod.uid))
        status = manager.update(pod, runtime.pod(pod.uid), failed=("Evicted", "no room"), disrupted=True)
        shown.append(type_ in [condition.type for condition in status.conditions])

    assert shown == [True, False]
