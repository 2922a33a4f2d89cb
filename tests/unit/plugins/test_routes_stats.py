"""Tests for ``/stats/summary`` and ``/metrics/resource``: known values are reported, unknown ones are omitted."""

import json

import pytest
from aiohttp.test_utils import make_mocked_request

from nodeagent.contracts.stats import (
    ContainerUsage,
    CpuStats,
    FilesystemStats,
    InterfaceStats,
    IoStats,
    MemoryStats,
    NodeUsage,
    PodUsage,
    Pressure,
    PressureShare,
    VolumeUsage,
)
from nodeagent.errors import NodeAgentError
from nodeagent.testing import make_context
from nodeagent_plugins.routes_stats import nodeagent_provide_routes
from nodeagent_plugins.routes_stats.summary import summary

SECOND = 1_000_000_000
PRESSURE = Pressure(PressureShare(1, 0.5), PressureShare(2))
CPU = CpuStats(SECOND, 5, 3 * SECOND, PRESSURE)
MEMORY = MemoryStats(2 * SECOND, 1, 2, 3, 4, 5, 6, swap_usage_bytes=7, swap_available_bytes=8, pressure=PRESSURE)
DISK = FilesystemStats(SECOND, 1, 3, 2, 4, 9, 5)
FULL = PodUsage(
    "u",
    "ns",
    "web",
    SECOND,
    [
        ContainerUsage("main", SECOND, CPU, MEMORY, DISK, DISK, io=IoStats(SECOND, PRESSURE)),
        ContainerUsage("bare", 0, CpuStats(SECOND), MemoryStats(SECOND)),
        ContainerUsage("swap", 0, None, MemoryStats(SECOND, swap_usage_bytes=7)),
    ],
    cpu=CPU,
    memory=MEMORY,
    interfaces=[InterfaceStats("eth0", 1, 2, 3, 4), InterfaceStats("net1")],
    volumes=[VolumeUsage("data", DISK, ("ns", "claim"))],
    ephemeral_storage=DISK,
    process_count=3,
    io=IoStats(SECOND, PRESSURE),
)
BARE = PodUsage("b", "ns", "bare", 0)
NODE = NodeUsage(SECOND, CPU, MEMORY, DISK, DISK, None, [InterfaceStats("eth0", 1)])


@pytest.fixture
def context(tmp_path, clock):
    made = make_context(tmp_path, clock=clock)
    made.stats.set(FULL, BARE)
    return made


async def get(context, path, query=""):
    route = next(each for each in nodeagent_provide_routes(context) if each.path == path and each.method == "GET")
    return await route.handler(make_mocked_request("GET", f"{path}{query}"))


async def pods_of(context, query=""):
    shown = json.loads((await get(context, "/stats/summary", query)).body)
    return {pod["podRef"]["name"]: pod for pod in shown["pods"]}


async def test_summary_contains_the_known_values_of_pods(context):
    pods = await pods_of(context)
    web = pods["web"]
    psi = {
        "full": {"total": 2, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0},
        "some": {"total": 1, "avg10": 0.5, "avg60": 0.0, "avg300": 0.0},
    }
    assert web["cpu"]["usageNanoCores"] == 5
    assert web["cpu"]["psi"] == web["memory"]["psi"] == web["io"]["psi"] == psi
    assert (web["swap"]["swapUsageBytes"], web["swap"]["swapAvailableBytes"]) == (7, 8)
    assert web["process_stats"] == {"process_count": 3}
    assert (web["network"]["name"], [i["name"] for i in web["network"]["interfaces"]]) == ("eth0", ["eth0", "net1"])
    assert web["ephemeral-storage"]["inodesUsed"] == 5
    assert web["volume"][0]["pvcRef"] == {"name": "claim", "namespace": "ns"}
    main, bare, swap = web["containers"]
    assert main["rootfs"]["usedBytes"] == main["logs"]["usedBytes"] == 2
    assert set(bare) == {"name", "startTime", "cpu", "memory"}
    assert set(bare["cpu"]) == set(bare["memory"]) == {"time"}
    assert "swapAvailableBytes" not in swap["swap"]
    assert set(pods["bare"]) == {"podRef", "startTime", "containers"}


async def test_summary_contains_the_known_values_of_the_node(context):
    system = [ContainerUsage("kubelet", SECOND, CPU, MEMORY), ContainerUsage("pods", 0)]
    full = NodeUsage(SECOND, CPU, MEMORY, DISK, DISK, max_pids=9, current_pids=3, system_containers=system)
    for query, known in (("", {"fs", "runtime", "rlimit"}), ("?only_cpu_and_memory=true", set())):
        context.stats = type(context.stats)(full)
        node = json.loads((await get(context, "/stats/summary", query)).body)["node"]
        assert set(node) == {"nodeName", "startTime", "cpu", "memory", "swap", "systemContainers", *known}
        assert node["startTime"] == "1970-01-01T00:00:01Z"
        kubelet, pods = node["systemContainers"]
        assert (kubelet["name"], kubelet["cpu"]["usageNanoCores"]) == ("kubelet", 5)
        assert pods == {"name": "pods", "startTime": None}
        context.stats = type(context.stats)(NodeUsage(0))
        node = json.loads((await get(context, "/stats/summary", query)).body)["node"]
        assert "systemContainers" not in node
        assert node["startTime"] is None


async def test_brief_summary_has_only_cpu_memory_and_swap(context):
    for query in ("?only_cpu_and_memory=true",):
        pods = await pods_of(context, query)
        assert set(pods["web"]) == {"podRef", "startTime", "containers", "cpu", "memory", "swap"}
        assert set(pods["web"]["containers"][0]) == {"name", "startTime", "cpu", "memory", "swap"}
        assert set(pods["bare"]) == {"podRef", "startTime", "containers"}
    for query in ("?only_cpu_and_memory=false", "?only_cpu_and_memory=true&only_cpu_and_memory=true"):
        assert "volume" in (await pods_of(context, query))["web"], query


async def test_resource_metrics_contain_the_known_values(context):
    async def lines():
        body = (await get(context, "/metrics/resource")).body.decode()
        return [line for line in body.splitlines() if not line.startswith("#")]

    context.stats = type(context.stats)(NODE, [FULL, BARE])
    labels = '{container="main",pod="web",namespace="ns"}'
    found = await lines()
    for sample in (
        f"container_cpu_usage_seconds_total{labels} 3",
        f"container_memory_working_set_bytes{labels} 3",
        f"container_swap_limit_bytes{labels} 15",
        f"container_start_time_seconds{labels} 1",
        'pod_cpu_usage_seconds_total{pod="web",namespace="ns"} 3',
        "node_memory_working_set_bytes 3",
        "resource_scrape_error 0",
    ):
        assert [line for line in found if line.startswith(sample)], sample
    others = [line.partition("{")[0] for line in found if 'container="bare"' in line or 'pod="bare"' in line]
    assert others == []
    assert [line.partition("{")[0] for line in found if 'container="swap"' in line] == ["container_swap_usage_bytes"]
    context.stats.fail("node", NodeAgentError("away"))
    assert await lines() == ["resource_scrape_error 1"]


@pytest.mark.parametrize(("layers", "used"), [(None, 2), (FilesystemStats(SECOND, used_bytes=9), 9)])
def test_writable_layers_are_on_the_disk_of_images_unless_separate(layers, used):
    node = NodeUsage(SECOND, image_filesystem=DISK, container_filesystem=layers)

    runtime = summary("node-1", node, ())["node"]["runtime"]

    assert (runtime["imageFs"]["usedBytes"], runtime["containerFs"]["usedBytes"]) == (2, used)
