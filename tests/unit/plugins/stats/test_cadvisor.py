"""Tests for ``/metrics/cadvisor``."""

from __future__ import annotations

import os

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodeagent.contracts.runtime import ContainerStats
from nodeagent.contracts.server import Exposure
from nodeagent_plugins.stats import cadvisor
from nodeagent_plugins.stats.cadvisor import cadvisor_routes
from tests.unit.plugins.stats.test_provider import SECOND, Bench

TICKS = os.sysconf("SC_CLK_TCK")


class Request:
    def __init__(self):
        self.headers = {}


async def scrape(bench):
    (route,) = cadvisor_routes(bench.context, bench.stats)
    assert (route.path, route.exposure, route.subresources) == ("/metrics/cadvisor", Exposure.READ_ONLY, ("metrics",))
    response = await route.handler(Request())
    return [sample for family in text_string_to_metric_families(response.body.decode()) for sample in family.samples]


def of(samples, **labels):
    """Return the samples of a subject by name, with their distinguishing labels."""
    subject = {"container": "", "name": "", "pod": "", **labels}
    found = {}
    for sample in samples:
        if all(sample.labels.get(key) == value for key, value in subject.items()):
            extra = [v for k, v in sample.labels.items() if k not in cadvisor.LABELS]
            found[" ".join([sample.name, *extra])] = sample.value
    return found


@pytest.fixture
def bench(tmp_path, clock, fake):
    fake.v1()
    mounts = (fake.root / "proc/self/mountinfo").read_text()
    for controller in ("cpu", "pids", "blkio"):
        mounts += f"40 24 0:30 / /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}\n"
    fake.put("proc/self/mountinfo", mounts)
    bench = Bench(tmp_path, clock, fake)
    bench.use(cpu=2 * SECOND)
    path = f"{bench.parent}/{bench.main}"
    fake.put(f"sys/fs/cgroup/cpu{path}/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 3000000000\n")
    fake.put(f"sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us", "50000\n")
    fake.put(f"sys/fs/cgroup/cpu{path}/cpu.cfs_period_us", "100000\n")
    fake.put(f"sys/fs/cgroup/cpu{path}/cpu.shares", "512\n")
    fake.put(f"sys/fs/cgroup/memory{path}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    fake.put(f"sys/fs/cgroup/pids{path}/pids.current", "6\n")
    fake.put(f"sys/fs/cgroup/pids{path}/pids.max", "max\n")
    service = "8:0 Read 100\n8:0 Write 200\n8:0 Total 300\nTotal 300\n"
    fake.put(f"sys/fs/cgroup/blkio{path}/blkio.throttle.io_service_bytes_recursive", service)
    fake.put(f"sys/fs/cgroup/blkio{path}/blkio.throttle.io_serviced_recursive", "8:0 Read 1\n8:0 Write 2\n")
    fake.put(f"sys/fs/cgroup/cpuacct{path}/cpuacct.stat", f"user {3 * TICKS}\nsystem {2 * TICKS}\n")
    fake.put(f"sys/fs/cgroup/memory{path}/memory.failcnt", "4\n")
    fake.put(f"sys/fs/cgroup/memory{path}/memory.max_usage_in_bytes", "12000\n")
    fake.put(f"sys/fs/cgroup/memory{path}/memory.soft_limit_in_bytes", f"{1 << 63}\n")
    fake.put(f"sys/fs/cgroup/memory{path}/memory.memsw.limit_in_bytes", "40000\n")
    fake.put("proc/11/limits", "Limit Soft Hard Units\nMax open files            1024      4096       files\n")
    mounts += "50 24 8:1 / / rw - ext4 /dev/sda1 rw\n51 24 8:1 /x /mnt rw - ext4 /dev/sda1 rw\n"
    fake.put("proc/self/mountinfo", mounts)
    fake.put("proc/diskstats", "   8       1 sda1 1 2 3 4000 5 6 7 8000 9 10000 11000 0 0 0 0\n")
    (fake.root / "sys/dev/block").mkdir(parents=True)
    (fake.root / "sys/dev/block/8:0").symlink_to("../../devices/pci/block/sda")
    files = fake.root / "proc/11/fd"
    files.mkdir(parents=True)
    (files / "0").symlink_to("/dev/null")
    (files / "1").symlink_to("socket:[5]")
    fake.put("proc/sys/kernel/random/boot_id", "boot\n")
    return bench


async def test_container_has_all_metrics(bench):
    bench.runtime.stats[bench.main] = ContainerStats(bench.main, "main", bench.pod.uid, writable_layer_bytes=1000)

    found = of(await scrape(bench), container="main", name=bench.main, pod="web", namespace="default", image="image")

    expected = {
        "container_cpu_usage_seconds_total total": 2,
        "container_cpu_user_seconds_total": 3,
        "container_cpu_system_seconds_total": 2,
        "container_cpu_cfs_periods_total": 9,
        "container_cpu_cfs_throttled_periods_total": 4,
        "container_cpu_cfs_throttled_seconds_total": 3,
        "container_memory_usage_bytes": 10_000,
        "container_memory_working_set_bytes": 9_000,
        "container_memory_rss": 5000,
        "container_memory_cache": 4000,
        "container_memory_mapped_file": 70,
        "container_memory_swap": 30,
        "container_memory_failures_total pgfault hierarchy": 80,
        "container_memory_failures_total pgmajfault hierarchy": 9,
        "container_spec_memory_limit_bytes": 0,
        "container_spec_cpu_quota": 50_000,
        "container_spec_cpu_period": 100_000,
        "container_spec_cpu_shares": 512,
        "container_oom_events_total": 3,
        "container_processes": 2,
        "container_threads": 6,
        "container_threads_max": 0,
        "container_file_descriptors": 2,
        "container_sockets": 1,
        "container_fs_reads_bytes_total /dev/sda": 100,
        "container_fs_writes_bytes_total /dev/sda": 200,
        "container_fs_reads_total /dev/sda": 1,
        "container_fs_writes_total /dev/sda": 2,
        "container_fs_usage_bytes ": 1000,
        "container_blkio_device_usage_total /dev/sda 8 0 Write": 200,
        "container_memory_failcnt_total": 4,  # The parser adds the suffix.
        "container_memory_max_usage_bytes": 12_000,
        "container_spec_memory_reservation_limit_bytes": 0,
        "container_spec_memory_swap_limit_bytes": 40_000,
        "container_ulimits_soft max_open_files": 1024,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert {"container_last_seen", "container_start_time_seconds"} <= set(found)


async def test_pod_network_is_reported_for_its_sandbox(bench):
    samples = await scrape(bench)

    sandbox = of(samples, name=bench.sandbox, pod="web")
    assert sandbox["container_network_receive_bytes_total eth0"] == 70
    assert sandbox["container_network_transmit_bytes_total eth0"] == 80
    assert not any("network" in name for name in of(samples, container="main", name=bench.main, pod="web"))


async def test_pods_root_and_host_are_reported(bench):
    samples = await scrape(bench)

    assert of(samples, id=bench.parent, pod="web")["container_memory_usage_bytes"] == 30_000
    assert of(samples, id="/")["container_memory_usage_bytes"] == 100_000
    assert of(samples, id="/kubepods")["container_memory_usage_bytes"] == 40_000
    machine = {s.name: (s.value, s.labels["boot_id"]) for s in samples if s.name.startswith("machine_")}
    assert machine["machine_memory_bytes"] == (1000 * 1024, "boot")
    assert machine["machine_cpu_cores"][0] >= 1


async def test_devices_of_file_systems_are_reported_for_the_host(bench):
    host = of(await scrape(bench), id="/")

    expected = {
        "reads_merged_total": 2,
        "sector_reads_total": 3,
        "read_seconds_total": 4,
        "writes_merged_total": 6,
        "sector_writes_total": 7,
        "write_seconds_total": 8,
        "io_current": 9,
        "io_time_seconds_total": 10,
        "io_time_weighted_seconds_total": 11,
    }
    assert {name: host[f"container_fs_{name} /dev/sda1"] for name in expected} == expected
    assert host["container_fs_inodes_total /dev/sda1"] >= host["container_fs_inodes_free /dev/sda1"] >= 0
    assert host["container_fs_limit_bytes /dev/sda1"] >= host["container_fs_usage_bytes /dev/sda1"] > 0


async def test_version_2_has_the_same_metrics(tmp_path, clock, fake):
    fake.v2()
    bench = Bench(tmp_path, clock, fake)
    path = f"{bench.parent}/{bench.main}"
    fake.cgroup_v2(path, cpu=2 * SECOND, memory=10_000, limit=20_000, pids="11\n")
    fake.put(
        f"sys/fs/cgroup{path}/cpu.stat",
        "usage_usec 2000000\nuser_usec 1500000\nsystem_usec 500000\nnr_periods 9\nnr_throttled 4\n"
        "throttled_usec 3000000\n",
    )
    fake.put(f"sys/fs/cgroup{path}/cpu.max", "50000 100000\n")
    fake.put(f"sys/fs/cgroup{path}/cpu.weight", "20\n")
    fake.put(f"sys/fs/cgroup{path}/memory.events", "low 0\noom 5\noom_kill 3\n")
    fake.put(f"sys/fs/cgroup{path}/memory.peak", "12000\n")
    fake.put(f"sys/fs/cgroup{path}/memory.swap.max", "max\n")
    fake.put(f"sys/fs/cgroup{path}/io.stat", "8:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n")

    found = of(await scrape(bench), container="main", name=bench.main, pod="web")

    expected = {
        "container_cpu_usage_seconds_total total": 2,
        "container_cpu_user_seconds_total": 1.5,
        "container_cpu_system_seconds_total": 0.5,
        "container_cpu_cfs_throttled_seconds_total": 3,
        "container_memory_max_usage_bytes": 12_000,
        "container_spec_memory_swap_limit_bytes": 0,
        "container_spec_memory_limit_bytes": 20_000,
        "container_spec_cpu_quota": 50_000,
        "container_spec_cpu_shares": 500,
        "container_oom_events_total": 3,
        "container_fs_writes_bytes_total 8:0": 200,
    }
    assert {name: found.get(name) for name in expected} == expected


async def test_parents_of_pods_are_reported_by_quality_of_service(bench):
    for name in ("burstable", "besteffort", "podguaranteed"):
        bench.fake.cgroup_v1(f"/kubepods/{name}", cpu=1, memory=5_000)

    samples = await scrape(bench)

    reported = {each for each in ("burstable", "besteffort", "podguaranteed") if of(samples, id=f"/kubepods/{each}")}
    assert reported == {"burstable", "besteffort"}


async def test_disk_usage_of_a_container_includes_its_logs(bench):
    bench.runtime.stats[bench.main] = ContainerStats(bench.main, "main", bench.pod.uid, writable_layer_bytes=1000)
    logs = bench.context.root_dir / "logs" / "pods" / f"default_web_{bench.pod.uid}" / "main"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(b"x" * 8192)

    samples = await scrape(bench)

    assert (
        of(samples, container="main", name=bench.main, pod="web", namespace="default")["container_fs_usage_bytes "]
        == 1000 + 8192
    )
