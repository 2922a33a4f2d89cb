"""Tests for the stats summary and resource metrics, and their permissions."""

from __future__ import annotations

import json
import socket

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.contracts.stats import (
    ContainerUsage,
    CpuStats,
    FilesystemStats,
    InterfaceStats,
    MemoryStats,
    NodeUsage,
    PodUsage,
    VolumeUsage,
)
from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeStats
from tests.integration.server.conftest import serving

SECOND = 1_000_000_000
AT = 1_700_000_000 * SECOND
CPU = CpuStats(AT, 5, 7 * SECOND)
MEMORY = MemoryStats(AT, 1, 2, 3, 4, 5, 6, swap_usage_bytes=8, swap_available_bytes=9)
DISK = FilesystemStats(AT, 1, 2, 3, 4, 5, 6)
SHOWN_CPU = {"time": "2023-11-14T22:13:20Z", "usageNanoCores": 5, "usageCoreNanoSeconds": 7 * SECOND}
SHOWN_MEMORY = {
    "time": "2023-11-14T22:13:20Z",
    "availableBytes": 1,
    "usageBytes": 2,
    "workingSetBytes": 3,
    "rssBytes": 4,
    "pageFaults": 5,
    "majorPageFaults": 6,
}
SHOWN_SWAP = {"time": "2023-11-14T22:13:20Z", "swapAvailableBytes": 9, "swapUsageBytes": 8}
SHOWN_DISK = {
    "time": "2023-11-14T22:13:20Z",
    "availableBytes": 1,
    "capacityBytes": 2,
    "usedBytes": 3,
    "inodesFree": 4,
    "inodes": 5,
    "inodesUsed": 6,
}
SHOWN_INTERFACE = {"name": "eth0", "rxBytes": 1, "rxErrors": 2, "txBytes": 3, "txErrors": 4}


@pytest.fixture
def stats():
    interfaces = [InterfaceStats("eth0", 1, 2, 3, 4)]
    node = NodeUsage(
        AT,
        cpu=CPU,
        memory=MEMORY,
        filesystem=DISK,
        image_filesystem=DISK,
        interfaces=interfaces,
        max_pids=100,
        current_pids=10,
        system_containers=[ContainerUsage("pods", AT, CPU, MEMORY)],
    )
    pod = PodUsage(
        "u1",
        "default",
        "web",
        AT,
        [ContainerUsage("main", AT, CPU, MEMORY, DISK, DISK)],
        CPU,
        MEMORY,
        interfaces,
        [VolumeUsage("scratch", DISK, local_ephemeral=True), VolumeUsage("data", DISK, ("default", "claim"))],
        DISK,
        12,
    )
    return FakeStats(node, [pod])


async def test_summary_has_upstream_fields(pki, tmp_path, stats):
    async with serving(pki, tmp_path, parts={"stats": stats}) as node:
        status, text, headers = await node.fetch("/stats/summary", token="scraper-token")

    assert (status, headers["Content-Type"].split(";")[0]) == (200, "application/json")
    started = "2023-11-14T22:13:20Z"
    network = {"time": started, **SHOWN_INTERFACE, "interfaces": [SHOWN_INTERFACE]}
    use = {"startTime": started, "cpu": SHOWN_CPU, "memory": SHOWN_MEMORY, "swap": SHOWN_SWAP}
    assert json.loads(text) == {
        "node": {
            "nodeName": "node-1",
            **use,
            "systemContainers": [{"name": "pods", **use}],
            "network": network,
            "fs": SHOWN_DISK,
            "runtime": {"imageFs": SHOWN_DISK, "containerFs": SHOWN_DISK},
            "rlimit": {"time": started, "maxpid": 100, "curproc": 10},
        },
        "pods": [
            {
                "podRef": {"name": "web", "namespace": "default", "uid": "u1"},
                **use,
                "containers": [{"name": "main", **use, "rootfs": SHOWN_DISK, "logs": SHOWN_DISK}],
                "network": network,
                "volume": [
                    {**SHOWN_DISK, "name": "scratch"},
                    {**SHOWN_DISK, "name": "data", "pvcRef": {"name": "claim", "namespace": "default"}},
                ],
                "ephemeral-storage": SHOWN_DISK,
                "process_stats": {"process_count": 12},
            }
        ],
    }


async def test_summary_of_cpu_and_memory_omits_other_fields(pki, tmp_path, stats):
    async with serving(pki, tmp_path, parts={"stats": stats}, read_only_port=0) as node:
        _, text, _ = await node.fetch("/stats/summary?only_cpu_and_memory=true", token="scraper-token")
        _, posted, _ = await node.fetch(
            "/stats/summary",
            method="POST",
            token="admin-token",
            body=b"only_cpu_and_memory=true",
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )

    shown = json.loads(text)
    assert json.loads(posted) == shown
    assert set(shown["node"]) == {"nodeName", "startTime", "cpu", "memory", "swap", "systemContainers"}
    assert set(shown["pods"][0]) == {"podRef", "startTime", "containers", "cpu", "memory", "swap"}
    assert set(shown["pods"][0]["containers"][0]) == {"name", "startTime", "cpu", "memory", "swap"}


async def test_failed_summary_is_an_error(pki, tmp_path, stats):
    stats.fail("pods", RuntimeUnavailable("the runtime is gone"), times=None)
    async with serving(pki, tmp_path, parts={"stats": stats}) as node:
        status, text, _ = await node.fetch("/stats/summary", token="scraper-token")
        scraped, metrics, _ = await node.fetch("/metrics/resource", token="scraper-token")

    assert (status, "gone" in text) == (500, True)
    assert (scraped, "resource_scrape_error 1\n" in metrics) == (200, True)


def listener_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def values(text):
    return {
        (sample.name, *sample.labels.values()): (sample.value, sample.timestamp)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_resource_metrics_have_the_time_of_the_measurement(pki, tmp_path, stats):
    async with serving(pki, tmp_path, parts={"stats": stats}) as node:
        _, text, _ = await node.fetch("/metrics/resource", token="scraper-token")

    at = AT / SECOND
    assert values(text) == {
        ("node_cpu_usage_seconds_total",): (7, at),
        ("node_memory_working_set_bytes",): (3, at),
        ("node_swap_usage_bytes",): (8, at),
        ("container_cpu_usage_seconds_total", "main", "web", "default"): (7, at),
        ("container_memory_working_set_bytes", "main", "web", "default"): (3, at),
        ("container_swap_usage_bytes", "main", "web", "default"): (8, at),
        ("container_swap_limit_bytes", "main", "web", "default"): (17, None),
        ("container_start_time_seconds", "main", "web", "default"): (at, None),
        ("pod_cpu_usage_seconds_total", "web", "default"): (7, at),
        ("pod_memory_working_set_bytes", "web", "default"): (3, at),
        ("pod_swap_usage_bytes", "web", "default"): (8, at),
        ("resource_scrape_error",): (0, None),
    }


@pytest.mark.row("config.showHiddenMetricsForVersion")
@pytest.mark.parametrize(("version", "shown"), [("", False), ("1.28", True)])
async def test_hidden_metrics_are_exposed_for_the_previous_version(pki, tmp_path, stats, version, shown):
    async with serving(pki, tmp_path, parts={"stats": stats}, show_hidden_metrics_for_version=version) as node:
        _, text, _ = await node.fetch("/metrics/resource", token="scraper-token")

    assert ("\nscrape_error 0\n" in text) is shown


async def test_service_level_metrics_have_health_check_results(pki, tmp_path):
    async with serving(pki, tmp_path) as node:
        before = values((await node.fetch("/metrics/slis", token="scraper-token"))[1])
        await node.fetch("/healthz", token="admin-token")
        after = values((await node.fetch("/metrics/slis", token="scraper-token"))[1])

    count = ("kubernetes_healthchecks_total", "syncloop", "healthz", "success")
    assert after[count][0] == before.get(count, (0, None))[0] + 1
    assert after["kubernetes_healthcheck", "syncloop", "healthz"] == (1, None)


@pytest.mark.row("gate.ComponentSLIs")
async def test_service_level_metrics_require_their_feature_gate(pki, tmp_path):
    for enabled, status in ((True, 200), (False, 404)):
        async with serving(pki, tmp_path, feature_gates={"ComponentSLIs": enabled}) as node:
            assert (await node.fetch("/metrics/slis", token="admin-token"))[0] == status


async def test_read_only_port_serves_summary_and_metrics(pki, tmp_path, stats):
    paths = ("/stats/summary", "/metrics/resource", "/metrics/probes", "/metrics/slis")
    async with serving(pki, tmp_path, parts={"stats": stats}, read_only_port=listener_port()) as node:
        shown = {path: (await node.fetch(path, read_only=True))[0] for path in paths}

    assert shown == dict.fromkeys(paths, 200)
