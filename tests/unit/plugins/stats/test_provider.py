"""Tests for the statistics provider."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import replace

import pytest

from nodeagent.config.features import build_gates
from nodeagent.contracts.runtime import ContainerStats, FilesystemUsage, SandboxStats
from nodeagent.contracts.settings import NodeSettings
from nodeagent.contracts.stats import FilesystemStats, InterfaceStats, PodUsage, VolumeUsage
from nodeagent.errors import RuntimeUnavailable
from nodeagent.testing import FakeRuntime, load_plugin, make_config, make_context, make_pod
from nodeagent.testing.contracts import StatsProviderContract
from nodeagent_plugins import stats as stats_plugin
from nodeagent_plugins.stats import provider as provider_module
from nodeagent_plugins.stats.pods import with_volumes
from nodeagent_plugins.stats.provider import MeasuredStats
from nodeagent_plugins.stats.volumes import VolumeMeter

SECOND = 1_000_000_000


class TestMeasuredStats(StatsProviderContract):
    @pytest.fixture
    async def runtime(self, clock):
        return FakeRuntime(clock)

    @pytest.fixture
    def running(self, runtime):
        web = make_pod("web", containers=["main", "side"])
        runtime.start("main", web)
        runtime.start("side", web)
        runtime.exit(runtime.start("done", make_pod("done")))
        return [web.uid]

    @pytest.fixture
    async def stats(self, tmp_path, clock, runtime, running):
        context = make_context(tmp_path, clock=clock, runtime=runtime)
        for uid in running:
            context.pods.add(make_pod("web", containers=["main", "side"]), observed=runtime.pod(uid))
        return load_plugin(stats_plugin).provide("nodeagent_provide_stats", context=context)


class Bench:
    """A provider on a host made of files, with one pod of two containers."""

    def __init__(self, tmp_path, clock, fake, **parts):
        self.runtime, self.fake, self.clock = FakeRuntime(clock), fake, clock
        settings = {"pod_sync": {"log_root": str(tmp_path / "logs")}}
        self.context = make_context(tmp_path, clock=clock, runtime=self.runtime, plugin_settings=settings, **parts)
        self.pod = self.context.pods.add(make_pod("web", containers=["main", "side"]))
        self.main, self.side = (self.runtime.start(name, self.pod) for name in ("main", "side"))
        self.sandbox = self.runtime.pod(self.pod.uid).sandboxes[0].id
        self.parent = self.context.cgroups.parent_of(self.pod)
        self.stats = MeasuredStats(self.context, machine=fake.machine)

    def use(self, cpu=0, memory=10_000):
        fake = self.fake
        fake.cgroup_v1("", cpu=cpu * 10, memory=10 * memory)
        fake.cgroup_v1("/kubepods", cpu=cpu * 4, memory=4 * memory)
        fake.cgroup_v1("/agent", cpu=cpu, memory=memory)
        fake.cgroup_v1(self.parent, cpu=cpu * 3, memory=3 * memory, limit=1_000_000)
        fake.cgroup_v1(f"{self.parent}/{self.main}", cpu=cpu, memory=memory, pids="11\n12\n")
        fake.cgroup_v1(f"{self.parent}/{self.side}", cpu=cpu, memory=memory, pids="13\n")
        fake.cgroup_v1(f"{self.parent}/{self.sandbox}", cpu=cpu, memory=memory, pids="10\n")
        fake.interfaces(10, eth0=(70, 80))

    async def only(self):
        (pod,) = await self.stats.pods(fresh=True)
        return pod


@pytest.fixture
def bench(tmp_path, clock, fake):
    fake.v1()
    bench = Bench(tmp_path, clock, fake)
    bench.use()
    return bench


async def test_pod_usage_comes_from_its_cgroup_and_network_namespace(bench):
    pod = await bench.only()

    assert (pod.memory.usage_bytes, pod.memory.working_set_bytes, pod.memory.available_bytes) == (
        30_000,
        29_000,
        971_000,
    )
    assert pod.interfaces == [InterfaceStats("eth0", 70, 2, 80, 3)]
    assert pod.process_count == 4
    assert {c.name: c.memory.working_set_bytes for c in pod.containers} == {"main": 9_000, "side": 9_000}


async def test_cpu_rate_is_computed_from_two_measurements(bench):
    before = await bench.only()
    bench.use(cpu=2 * SECOND)
    await bench.clock.advance(10)

    after = await bench.only()

    assert before.cpu.usage_nanocores is None
    assert (after.cpu.usage_nanocores, after.cpu.usage_core_nanoseconds) == (6 * SECOND // 10, 6 * SECOND)
    assert [c.cpu.usage_nanocores for c in after.containers] == [2 * SECOND // 10] * 2


async def test_container_without_cgroup_uses_the_runtime_statistics(bench):
    bench.runtime.stats[bench.main] = ContainerStats(
        bench.main, "main", bench.pod.uid, timestamp=5, cpu_usage_core_nanoseconds=6, memory_working_set_bytes=7
    )
    stats = MeasuredStats(bench.context, machine=type(bench.fake.machine)(bench.context.root_dir / "none"))

    (pod,) = await stats.pods()

    main = next(container for container in pod.containers if container.name == "main")
    assert (main.cpu.time, main.cpu.usage_core_nanoseconds, main.memory.working_set_bytes) == (5, 6, 7)
    assert (pod.cpu.usage_core_nanoseconds, pod.memory.working_set_bytes) == (6, 7)


async def test_ephemeral_storage_is_the_total_of_logs_layers_and_volumes(bench, monkeypatch):
    logs = bench.context.root_dir / "logs" / "pods" / f"default_web_{bench.pod.uid}" / "main"
    logs.mkdir(parents=True)
    (logs / "0.log").write_bytes(b"x" * 8192)
    bench.runtime.stats[bench.main] = ContainerStats(
        bench.main, "main", bench.pod.uid, writable_layer_bytes=1000, writable_layer_mountpoint=str(logs)
    )
    volumes = [
        VolumeUsage("scratch", FilesystemStats(1, used_bytes=500, inodes_used=2), local_ephemeral=True),
        VolumeUsage("claim", FilesystemStats(1, used_bytes=9999), claim=("default", "data")),
    ]
    monkeypatch.setattr(bench.stats.volumes, "latest", lambda uid: volumes)

    pod = await bench.only()

    main = next(container for container in pod.containers if container.name == "main")
    assert (main.logs.used_bytes, main.rootfs.used_bytes) == (8192, 1000)
    assert main.rootfs.capacity_bytes
    assert pod.ephemeral_storage.used_bytes == 8192 + 1000 + 500
    assert list(pod.volumes) == volumes


async def test_recent_measurement_is_cached_unless_fresh(bench):
    await bench.stats.pods()
    await bench.stats.node()
    bench.use(memory=20_000)

    kept, kept_node = await bench.stats.pods(), await bench.stats.node()
    fresh, fresh_node = await bench.stats.pods(fresh=True), await bench.stats.node(fresh=True)

    assert (kept[0].memory.usage_bytes, fresh[0].memory.usage_bytes) == (30_000, 60_000)
    assert (kept_node.memory.usage_bytes, fresh_node.memory.usage_bytes) == (100_000, 200_000)
    bench.use(memory=30_000)
    await bench.clock.advance(6)
    assert (await bench.stats.pods())[0].memory.usage_bytes == 90_000


async def test_only_the_latest_container_of_a_name_counts(bench):
    await bench.clock.advance(1)
    newer = bench.runtime.start("main", bench.pod)

    pod = await bench.only()

    assert newer in [c.container_id for c in pod.containers]
    assert len(pod.containers) == 2


async def test_node_usage_includes_disks_processes_and_system_containers(bench, monkeypatch):
    async def usage():
        return [FilesystemUsage("/", 77, 5, timestamp=9)]

    monkeypatch.setattr(bench.context.images, "filesystem_usage", usage)

    node = await bench.stats.node()

    assert (node.memory.usage_bytes, node.memory.working_set_bytes) == (100_000, 99_000)
    assert node.memory.available_bytes == 1000 * 1024 - 99_000
    assert (node.memory.swap_usage_bytes, node.memory.swap_available_bytes) == (5 * 1024, 15 * 1024)
    assert (node.max_pids, node.current_pids, [i.name for i in node.interfaces]) == (30000, 345, ["eth0"])
    assert {c.name: c.memory.usage_bytes for c in node.system_containers} == {"kubelet": 10_000, "pods": 40_000}
    assert (node.image_filesystem.used_bytes, node.image_filesystem.time) == (77, 9)
    assert node.image_filesystem.capacity_bytes
    assert node.filesystem.capacity_bytes


async def test_system_cgroups_come_from_the_configuration(tmp_path, clock, fake):
    fake.v1()
    config = make_config(nodeagent_cgroups="/mine", system_cgroups="/rest", cgroup_root="/top")
    settings = NodeSettings(node_name="node-1", root_dir=str(tmp_path), cert_dir="", runtime_cgroups="/runtime")
    bench = Bench(tmp_path, clock, fake, config=config, settings=settings)
    for number, name in enumerate(("/mine", "/rest", "/runtime", "/top/kubepods"), 1):
        fake.cgroup_v1(name, cpu=1, memory=number)

    node = await bench.stats.node()

    found = {c.name: c.memory.usage_bytes for c in node.system_containers}
    assert found == {"kubelet": 1, "misc": 2, "runtime": 3, "pods": 4}


@pytest.mark.parametrize(("limit", "available"), [("50", 20), ("10", 0), ("max", None)])
async def test_available_swap_depends_on_the_limit(tmp_path, clock, fake, limit, available):
    fake.v2()
    bench = Bench(tmp_path, clock, fake)
    path = f"{bench.parent}/{bench.main}"
    fake.cgroup_v2(path, cpu=1, memory=1)
    fake.put(f"sys/fs/cgroup{path}/memory.swap.max", f"{limit}\n")

    pod = await bench.only()

    (memory,) = [container.memory for container in pod.containers if container.name == "main"]
    assert (memory.swap_usage_bytes, memory.swap_available_bytes) == (30, available)


@pytest.mark.parametrize(("gates", "provider"), [({}, "cadvisor"), ({"PodAndContainerStatsFromCRI": True}, "cri")])
def test_provider_of_statistics_is_shown(tmp_path, clock, fake, monkeypatch, gates, provider):
    monkeypatch.setattr(provider_module._PROVIDER, "_counts", {})
    fake.v1()
    Bench(tmp_path, clock, fake, config=make_config(feature_gates=gates))
    values = {name: provider_module._PROVIDER.value(name) for name in ("cadvisor", "cri")}
    assert values == {"cadvisor": 0, "cri": 0, provider: 1}


async def test_cgroup_of_pods_has_the_name_of_the_driver_in_effect(tmp_path, clock, fake):
    fake.v1()
    bench = Bench(tmp_path, clock, fake, config=make_config(cgroup_driver="cgroupfs", cgroup_root="/top.slice"))
    assert bench.stats.locator.all_pods() == "/top.slice/kubepods"
    bench.context.cgroups.driver = "systemd"
    assert bench.stats.locator.all_pods() == "/top.slice/top-kubepods.slice"


async def test_runtime_cgroup_is_that_of_the_socket_listener(tmp_path, clock, fake):
    fake.v1()
    path = tmp_path / "r.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        fake.put(f"proc/{os.getpid()}/cgroup", "4:memory:/system/runtime\n")
        fake.cgroup_v1("/system/runtime", cpu=1, memory=2)
        bench = Bench(tmp_path, clock, fake, config=make_config(container_runtime_endpoint=f"unix://{path}"))

        node = await bench.stats.node()

    assert [c.name for c in node.system_containers if c.memory.usage_bytes == 2] == ["runtime"]


async def test_unresponsive_runtime_fails_pods_but_not_the_node(bench):
    bench.runtime.fail("*", RuntimeUnavailable("gone"), times=None)
    bench.context.images.fail("*", RuntimeUnavailable("gone"), times=None)

    with pytest.raises(RuntimeUnavailable):
        await bench.stats.pods()
    node = await bench.stats.node()

    assert (node.image_filesystem, node.memory.usage_bytes) == (None, 100_000)


def counted(bench):
    container = ContainerStats(bench.main, "main", bench.pod.uid, 3, 4, memory_working_set_bytes=5)
    interfaces = (InterfaceStats("eth0", 1, 2, 3, 4),)
    return SandboxStats(
        bench.sandbox,
        bench.pod.uid,
        timestamp=6,
        cpu_usage_core_nanoseconds=7,
        memory_working_set_bytes=8,
        process_count=9,
        interfaces=interfaces,
        containers=(container,),
    )


@pytest.mark.parametrize("on", [True, False])
async def test_gate_selects_the_runtime_statistics(tmp_path, clock, fake, on):
    fake.v1()
    bench = Bench(tmp_path, clock, fake, gates=build_gates({"PodAndContainerStatsFromCRI": on}))
    bench.use()
    bench.runtime.pod_stats = {bench.pod.uid: counted(bench)}

    pod = await bench.only()

    main = next(container for container in pod.containers if container.name == "main")
    assert (main.memory.working_set_bytes, pod.memory.working_set_bytes) == ((5, 8) if on else (9_000, 29_000))
    assert (pod.process_count, len(bench.runtime.called("sandbox_stats"))) == ((9, 1) if on else (4, 0))


async def test_missing_pod_statistics_are_requested_once(tmp_path, clock, fake, caplog):
    fake.v1()
    bench = Bench(tmp_path, clock, fake, gates=build_gates({"PodAndContainerStatsFromCRI": True}))
    bench.use()

    for _ in range(2):
        assert (await bench.only()).memory.working_set_bytes == 29_000

    assert len(bench.runtime.called("sandbox_stats")) == 1
    assert len(caplog.records) == 1


def test_volumes_are_measured_by_a_background_loop(tmp_path):
    manager, context = load_plugin(stats_plugin), make_context(tmp_path)
    context.stats = manager.provide("nodeagent_provide_stats", context=context)

    (response,) = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)

    (loop,) = response.value
    assert isinstance(loop, VolumeMeter)


def test_hook_settings_schema(tmp_path):
    assert set(stats_plugin.nodeagent_settings_schema()["properties"]) == {"max_age_seconds"}


async def test_layer_statistics_are_cached_unless_there_are_new_containers(bench):
    for _ in range(2):
        await bench.stats.pods(fresh=True)
    assert len(bench.runtime.called("container_stats")) == 1

    await bench.clock.advance(10)
    await bench.stats.pods(fresh=True)
    assert len(bench.runtime.called("container_stats")) == 2

    bench.runtime.start("late", bench.context.pods.add(make_pod("late")))
    await bench.stats.pods(fresh=True)
    assert len(bench.runtime.called("container_stats")) == 3


async def test_hanging_runtime_does_not_delay_the_node_usage(bench, monkeypatch, caplog):
    monkeypatch.setattr(provider_module, "IMAGE_SECONDS", 0.01)
    before = await bench.stats.node(fresh=True)
    bench.context.images.hang("filesystem_usage")
    bench.use(memory=20_000)

    for _ in range(2):
        node = await bench.stats.node(fresh=True)

    assert node.memory.usage_bytes == 200_000
    assert node.image_filesystem.capacity_bytes == before.image_filesystem.capacity_bytes
    assert len(caplog.records) == 1
    bench.context.images.recover()


async def test_memory_is_read_from_cgroups_without_the_runtime(bench):
    bench.context.pods.add(bench.pod, observed=bench.runtime.pod(bench.pod.uid))
    bench.use(memory=20_000)
    bench.runtime.calls.clear()

    (pod,) = await bench.stats.memory()

    assert bench.runtime.calls == []
    assert (pod.uid, pod.memory.working_set_bytes) == (bench.pod.uid, 59_000)
    assert {c.name: c.memory.working_set_bytes for c in pod.containers} == {"main": 19_000, "side": 19_000}
    assert (pod.cpu, pod.ephemeral_storage) == (None, None)


async def test_memory_without_a_cgroup_comes_from_the_runtime(bench, clock):
    alone = bench.context.pods.add(make_pod("alone"))
    bench.runtime.start("main", alone)
    bench.context.pods.add(alone, observed=bench.runtime.pod(alone.uid))

    found = await bench.stats.memory()

    assert {pod.name for pod in found} == {"web", "alone"}


async def test_exited_pod_has_no_memory_usage(bench):
    bench.context.pods.add(bench.pod, observed=bench.runtime.pod(bench.pod.uid))
    await bench.stats.memory()
    for file in bench.fake.root.rglob("memory.usage_in_bytes"):
        file.unlink()

    assert await bench.stats.memory() == []


async def test_hosts_file_counts_as_ephemeral_storage(bench):
    before = (await bench.only()).ephemeral_storage.used_bytes
    directory = bench.context.pod_dir(bench.pod.uid)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "etc-hosts").write_bytes(b"x" * 1_048_576)

    assert (await bench.only()).ephemeral_storage.used_bytes >= before + 1_048_576


async def test_measurement_is_cached_for_the_maximum_age(bench):
    await bench.stats.pods()
    await bench.stats.node()
    bench.use(memory=20_000)

    found = []
    for pause in (4.9, 0.1):
        await bench.clock.advance(pause)
        (pod,), node = await bench.stats.pods(), await bench.stats.node()
        found.append((pod.memory.usage_bytes, node.memory.usage_bytes))

    assert found == [(30_000, 100_000), (60_000, 200_000)]


async def test_layers_are_measured_again_for_a_container_without_a_cgroup(bench):
    for controller in ("cpuacct", "memory"):
        shutil.rmtree(bench.fake.root / f"sys/fs/cgroup/{controller}{bench.parent}")

    for _ in range(2):
        await bench.stats.pods(fresh=True)

    assert len(bench.runtime.called("container_stats")) == 2


async def test_failure_of_image_stats_is_logged_once_until_they_recover(bench, caplog):
    bench.context.images.fail("filesystem_usage", RuntimeUnavailable("gone"), times=2)

    for _ in range(3):
        await bench.stats.node(fresh=True)
    bench.context.images.fail("filesystem_usage", RuntimeUnavailable("gone again"))
    await bench.stats.node(fresh=True)

    assert [record.err for record in caplog.records] == ["gone", "gone again"]


async def test_timeout_of_image_stats_is_named(bench, monkeypatch, caplog):
    monkeypatch.setattr(provider_module, "IMAGE_SECONDS", 0.001)
    bench.context.images.hang("filesystem_usage")

    await bench.stats.node(fresh=True)

    assert [record.err for record in caplog.records] == ["timed out"]
    bench.context.images.recover()


async def test_rates_of_the_runtime_are_used_if_it_has_them(tmp_path, clock, fake):
    fake.v1()
    bench = Bench(tmp_path, clock, fake, gates=build_gates({"PodAndContainerStatsFromCRI": True}))
    sandbox = counted(bench)
    containers = (replace(sandbox.containers[0], cpu_usage_nanocores=11),)
    bench.runtime.pod_stats = {bench.pod.uid: replace(sandbox, cpu_usage_nanocores=12, containers=containers)}

    pod = await bench.only()

    main = next(container for container in pod.containers if container.name == "main")
    assert (main.cpu.usage_nanocores, pod.cpu.usage_nanocores) == (11, 12)


@pytest.mark.parametrize(
    ("removed", "count"),
    [((), 4), (("sandbox",), 3), (("main", "side"), 1), (("sandbox", "main", "side"), None)],
)
async def test_processes_are_counted_in_the_cgroups_that_exist(bench, removed, count):
    for name in removed:
        shutil.rmtree(bench.fake.root / f"sys/fs/cgroup/memory{bench.parent}/{getattr(bench, name)}")

    assert (await bench.only()).process_count == count


@pytest.mark.parametrize(("used", "total"), [(7, 3 + 7), (None, 3)])
def test_inodes_of_volumes_count_for_the_ephemeral_storage(used, total):
    pod = PodUsage("u", "default", "web", 0, [], ephemeral_storage=FilesystemStats(1, used_bytes=2, inodes_used=3))
    volumes = [
        VolumeUsage("scratch", FilesystemStats(1, inodes_used=used), local_ephemeral=True),
        VolumeUsage("claim", FilesystemStats(1, used_bytes=100, inodes_used=100)),
    ]

    found = with_volumes(pod, volumes)

    assert (found.ephemeral_storage.used_bytes, found.ephemeral_storage.inodes_used) == (2, total)
    assert with_volumes(pod, volumes[1:]).ephemeral_storage == pod.ephemeral_storage
    assert with_volumes(replace(pod, ephemeral_storage=None), volumes).ephemeral_storage is None


async def test_memory_of_a_pod_is_the_total_of_its_containers_without_its_cgroup(bench, monkeypatch):
    bench.context.pods.add(bench.pod, observed=bench.runtime.pod(bench.pod.uid))
    monkeypatch.setattr(bench.stats.locator, "pod", lambda uid: "")
    bench.runtime.calls.clear()

    (pod,) = await bench.stats.memory()

    assert (pod.memory.working_set_bytes, bench.runtime.calls) == (18_000, [])
