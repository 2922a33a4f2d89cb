"""Tests for the helpers that call the async hooks of a plugin."""

from __future__ import annotations

import inspect
from dataclasses import replace

import pytest

from nodeagent import hookimpl, hookspecs, testing
from nodeagent.contracts.eviction import Reclaimed
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import Rejection
from nodeagent.errors import PluginError
from nodeagent.testing import load_plugin, make_pod

HELPERS = {
    "nodeagent_admit_pod": "admit",
    "nodeagent_permit_pod": "permit",
    "nodeagent_mutate_sandbox": "mutate_sandbox",
    "nodeagent_mutate_container": "mutate_container",
    "nodeagent_report_node": "report_node",
    "nodeagent_reclaim_disk": "reclaim_disk",
    "nodeagent_rank_pods_for_eviction": "rank_for_eviction",
    "nodeagent_permit_eviction": "permit_eviction",
}


class Plugin:
    def __init__(self):
        self.seen = []

    @hookimpl
    async def nodeagent_permit_pod(self, pod):
        return Rejection("Later", pod.name)

    @hookimpl
    async def nodeagent_permit_eviction(self, pod, signal):
        return Rejection("Busy", signal)

    @hookimpl
    async def nodeagent_rank_pods_for_eviction(self, candidates):
        return list(reversed(candidates))

    @hookimpl
    async def nodeagent_reclaim_disk(self, signal):
        return Reclaimed(5, [signal])

    @hookimpl
    async def nodeagent_mutate_sandbox(self, sandbox):
        return replace(sandbox, hostname="changed")

    @hookimpl
    async def nodeagent_mutate_container(self, container, settings):
        return replace(settings, image=f"{container.name}:changed")

    @hookimpl
    async def nodeagent_report_node(self):
        return NodeReport(labels={"shelf": "full"})

    @hookimpl
    async def nodeagent_pod_terminated(self, pod):
        if pod.name == "bad":
            raise OSError("no database")
        self.seen.append(pod.name)


@pytest.fixture
def plugin():
    return Plugin()


@pytest.fixture
def manager(plugin):
    return load_plugin(plugin)


async def test_decisions_and_changes_are_returned(manager):
    a, b = make_pod("a"), make_pod("b")

    assert await testing.permit(manager, a) == Rejection("Later", "a")
    assert await testing.permit_eviction(manager, a, "pid.available") == Rejection("Busy", "pid.available")
    assert await testing.rank_for_eviction(manager, a, b) == [b, a]
    assert await testing.reclaim_disk(manager) == [Reclaimed(5, ["nodefs.available"])]
    assert (await testing.mutate_sandbox(manager, a)).hostname == "changed"
    assert (await testing.mutate_container(manager, a)).image == f"{a.spec.containers[0].name}:changed"
    assert (await testing.report_node(manager)).labels == {"shelf": "full"}


async def test_failed_notification_is_raised_each_time(manager, plugin):
    await testing.notify(manager, "nodeagent_pod_terminated", pod=make_pod("good"))
    for _ in range(2):
        with pytest.raises(PluginError, match="no database"):
            await testing.notify(manager, "nodeagent_pod_terminated", pod=make_pod("bad"))

    assert plugin.seen == ["good"]


def test_each_async_hook_with_a_result_has_a_helper():
    hooks = {
        name
        for name, function in vars(hookspecs).items()
        if name.startswith("nodeagent_")
        and inspect.iscoroutinefunction(function)
        and inspect.signature(function).return_annotation != "None"
    }

    assert set(HELPERS) == hooks
    assert all(callable(getattr(testing, helper)) for helper in HELPERS.values())
