"""Tests for the node overview."""

from __future__ import annotations

from nodeagent.contracts.devices import DeviceResource
from nodeagent.contracts.diagnostics import LoopLine, PluginCostLine
from nodeagent.contracts.images import PullInProgress
from nodeagent.contracts.local import NoArguments
from nodeagent.contracts.stats import CpuStats, FilesystemStats, MemoryStats, NodeUsage
from nodeagent.errors import RuntimeUnavailable
from nodeagent.node import NodeManager
from nodeagent.node.overview import Overview, gauges_of
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import make_context


def test_gauges_cover_resources_of_node_pressure():
    usage = NodeUsage(
        start_time=0,
        cpu=CpuStats(time=0, usage_nanocores=5 * 10**8),
        memory=MemoryStats(time=0, available_bytes=30, working_set_bytes=70),
        filesystem=FilesystemStats(time=0, available_bytes=40, capacity_bytes=100, inodes=10, inodes_free=9),
        image_filesystem=FilesystemStats(time=0),
        max_pids=1000,
        current_pids=10,
    )

    assert [(gauge.name, gauge.used, gauge.capacity) for gauge in gauges_of(usage, 2)] == [
        ("cpu", 5 * 10**8, 2 * 10**9),
        ("memory", 70, 100),
        ("nodefs", 60, 100),
        ("nodefs inodes", 1, 10),
        ("pids", 10, 1000),
    ]


async def test_overview_omits_unavailable_parts(clock, tmp_path):
    context = make_context(tmp_path, clock=clock)
    started = clock.now()
    context.puller.pulls = lambda: (PullInProgress("i", started, False, ("default/web",)),)
    context.puller.backoff_seconds_left = lambda pod, container: 0.0

    async def away(*, fresh=False):
        raise RuntimeUnavailable("no answer")

    context.stats.node = away
    cost = PluginCostLine("policy", 0.1, 1 << 20)
    node = NodeManager(context, PluginManager())
    overview = Overview(context, node, list, lambda: [LoopLine(name="pleg")], lambda: [cost])
    await clock.advance(7)

    found = await overview.overview(NoArguments())

    assert (found.node, found.ready, found.gauges, found.runtime) == ("node-1", False, [], "")
    assert [(pull.image, pull.seconds, pull.pods) for pull in found.pulls] == [("i", 7.0, ["default/web"])]
    assert (found.at - found.started_at).total_seconds() == 7
    assert (found.plugin_costs, found.memory_bytes > 1 << 20) == ([cost], True)


async def test_disconnected_device_plugin_is_a_problem(clock, tmp_path):
    context = make_context(tmp_path, clock=clock)
    states = [("a", True, "stale"), ("b", False, "closed"), ("c", False, "")]
    context.devices.resources = lambda: [
        DeviceResource(f"example.com/{name}", "", connected, 2, 1, 0, error) for name, connected, error in states
    ]
    overview = Overview(context, NodeManager(context, PluginManager()), list, list, list)

    found = await overview.overview(NoArguments())

    assert [line.problem for line in found.devices] == ["", "closed", "no device plugin is registered"]
