"""Tests for the eviction manager."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from nodeagent.base.aio import TaskOwner
from nodeagent.base.gates import FeatureGates
from nodeagent.config.features import build_gates
from nodeagent.contracts.eviction import EvictionCandidate, Reclaimed
from nodeagent.contracts.pods import KillReason, Rejection
from nodeagent.contracts.runtime import FilesystemUsage
from nodeagent.contracts.stats import NodeUsage
from nodeagent.errors import RuntimeFailure
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.testing import FakeClock, make_container, make_pod
from nodeagent.testing.context import make_context
from nodeagent_plugins.eviction.layout import detect_layout
from nodeagent_plugins.eviction.manager import CLEANUP_SECONDS, KILLED_SECONDS
from nodeagent_plugins.eviction.memory import MemoryReading
from nodeagent_plugins.eviction.metrics import EVICTIONS, STATS_AGE
from nodeagent_plugins.eviction.signals import Condition, Layout
from tests.unit.plugins.eviction.node import MakeNode, plugin
from tests.unit.plugins.eviction.usage import GI, MI, disk, node_usage

FEW = {"memory.available": "1Gi"}


async def test_eviction_is_logged_with_the_messages_of_the_kubelet(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    node = make_node(eviction_hard=FEW)
    node.has("small", memory=10 * MI)
    node.has("big", memory=300 * MI)
    node.shows(900 * MI)

    await node.manager.synchronize()

    records = [record for record in caplog.records if record.name.startswith("nodeagent_plugins.eviction")]
    assert [record.getMessage() for record in records][-4:] == [
        "Eviction manager: attempting to reclaim",
        "Eviction manager: must evict pod(s) to reclaim",
        "Eviction manager: pods ranked for eviction",
        "Eviction manager: pod is evicted successfully",
    ]
    assert vars(records[-3])["resourceName"] == "memory"
    assert vars(records[-2])["pods"] == ["default/big", "default/small"]
    assert vars(records[-1])["pod"] == "default/big"


async def test_first_eviction_waits_until_all_pods_are_admitted(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(eviction_hard={"nodefs.available": "1Gi"})
    node.has("small", logs=MI)
    node.has("big", logs=9 * MI)
    node.pods.ended.add("uid-big")
    node.pods.all_sources_ready = False
    node.shows(nodefs=GI // 2)

    one_pass = asyncio.create_task(node.manager.synchronize())
    await node.clock.advance(1)
    node.pods.all_sources_ready = True
    await node.clock.advance(1)
    assert node.evicted() == []
    node.pods.ended.clear()
    await node.clock.advance(1)
    await one_pass

    assert node.evicted() == ["big"]


async def test_first_eviction_does_not_wait_for_an_unavailable_source(make_node: MakeNode) -> None:
    node = make_node(eviction_hard={"nodefs.available": "1Gi"})
    node.has("small", logs=MI)
    node.pods.all_sources_ready = False
    node.shows(nodefs=GI // 2)

    one_pass = asyncio.create_task(node.manager.synchronize())
    await node.clock.advance(11)
    await one_pass

    assert node.evicted() == ["small"]


async def test_pod_added_during_the_measurement_is_measured_before_the_ranking(
    make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(eviction_hard={"nodefs.available": "1Gi"})
    node.has("small", logs=MI)
    node.shows(nodefs=GI // 2)
    measured: list[list[str]] = []

    async def measure_volumes() -> None:
        measured.append([pod.name for pod in node.pods.active()])
        if len(measured) == 1:
            node.has("big", logs=9 * MI)

    monkeypatch.setattr(node.stats, "measure_volumes", measure_volumes)

    await node.manager.synchronize()

    assert measured[:2] == [["small"], ["small", "big"]]
    assert node.evicted() == ["big"]


# --- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.row("config.evictionHard")
async def test_hard_threshold_kills_the_highest_ranked_pod(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("small", memory=10 * MI)
    node.has("big", memory=300 * MI)
    node.shows(900 * MI)

    await node.manager.synchronize()

    (kill,) = node.pods.kills
    message = (
        "The node was low on resource: memory. Threshold quantity: 1Gi, available: 900Mi. "
        "Container main was using 300Mi, request is 0, has larger consumption of memory. "
    )
    assert (kill.uid, kill.reason, kill.status_reason) == ("uid-big", KillReason.EVICTED, "Evicted")
    assert (kill.message, kill.grace_seconds) == (message, 0)
    assert node.recorder.reasons() == ["EvictionThresholdMet", "Evicted"]
    (met,) = node.recorder.of("EvictionThresholdMet")
    assert (met.regarding.kind, met.note) == ("Node", "Attempting to reclaim memory")
    (event,) = node.recorder.of("Evicted")
    assert (event.regarding.name, event.type, event.note) == ("big", "Warning", message)
    assert event.annotations == {
        "offending_containers": "main",
        "offending_containers_usage": "300Mi",
        "starved_resource": "memory",
    }


async def test_evictions_are_counted_by_signal_with_the_age_of_the_stats(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW, local_storage_capacity_isolation=True)
    node.has("big", memory=300 * MI)
    measured_at = int((clock.wall().timestamp() - 2) * 1e9)
    node.stats.node_usage = node_usage(0, time=measured_at)
    counted, ages = EVICTIONS.value("memory.available"), STATS_AGE.count("memory.available")

    await node.manager.synchronize()

    assert EVICTIONS.value("memory.available") == counted + 1
    assert STATS_AGE.count("memory.available") == ages + 1


async def test_node_without_pressure_evicts_nothing(make_node: MakeNode) -> None:
    node = make_node(eviction_hard={"memory.available": "1Gi", "nodefs.available": "10%", "pid.available": "100"})
    node.has("big", memory=5 * GI)
    node.shows(GI)

    await node.manager.synchronize()

    assert node.evicted() == []
    assert node.manager.conditions == set()


@pytest.mark.row("config.evictionHard")
@pytest.mark.parametrize(
    ("signal", "parts", "condition"),
    [
        ("memory.available", {"memory": GI}, Condition.MEMORY),
        ("nodefs.available", {"nodefs": GI}, Condition.DISK),
        ("imagefs.available", {"imagefs": GI}, Condition.DISK),
        ("pid.available", {"pids": 999}, Condition.PID),
    ],
)
async def test_each_signal_sets_its_condition_and_evicts_a_pod(
    make_node: MakeNode, signal: str, parts: dict[str, int], condition: Condition
) -> None:
    node = make_node(eviction_hard={signal: "20%"})
    node.has("a")
    node.shows(**parts)

    await node.manager.synchronize()

    assert node.manager.conditions == {condition}
    assert node.woken == 1
    assert node.evicted() == ["a"]


@pytest.mark.parametrize("signal", ["nodefs.inodesFree", "imagefs.inodesFree"])
async def test_inodes_are_watched_like_space(make_node: MakeNode, signal: str) -> None:
    node = make_node(eviction_hard={signal: "5%"})
    node.has("few", inodes=1)
    node.has("many", inodes=100)
    low = disk(90 * GI, inodes_free=49)
    node.stats.node_usage = node_usage(nodefs=low, imagefs=low)

    await node.manager.synchronize()

    assert node.evicted() == ["many"]
    assert "low on resource: inodes. Threshold quantity: 50, available: 49." in node.pods.kills[0].message


async def test_critical_and_finished_pods_are_not_evicted(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("static", critical=True, memory=5 * GI)
    done = node.has("done", memory=5 * GI)
    node.pods.statuses[done.uid] = PodStatus(phase="Failed")
    node.has("a", memory=MI)
    node.shows(0)

    await node.manager.synchronize()

    assert node.evicted() == ["a"]


async def test_one_pod_is_evicted_per_pass_and_its_termination_awaited(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW)
    for name, used in (("first", 3 * GI), ("second", 2 * GI), ("third", GI)):
        node.has(name, memory=used)
    node.shows(0)
    run = node.context.tasks.start(node.manager.run(), "rounds")

    await clock.advance(5)
    assert node.evicted() == ["first"]
    node.shows(MI)
    node.pods.ended.add("uid-first")
    await clock.advance(1)
    assert node.evicted() == ["first", "second"]
    node.shows(2 * MI)
    await clock.advance(KILLED_SECONDS - 1)
    assert node.evicted() == ["first", "second"]
    await clock.advance(1)
    assert node.evicted() == ["first", "second", "third"]
    run.cancel()
    await node.context.tasks.close()


async def test_pod_with_grace_delays_a_hard_threshold_no_longer_than_usual(
    make_node: MakeNode, clock: FakeClock
) -> None:
    node = make_node(
        eviction_hard={"memory.available": "100Mi"},
        eviction_soft=FEW,
        eviction_soft_grace_period={"memory.available": "0s"},
        eviction_max_pod_grace_period=60,
    )
    node.has("first", memory=2 * GI)
    node.has("second", memory=GI)
    node.shows(900 * MI)
    node.context.tasks.start(node.manager.run(), "rounds")

    await clock.advance(5)
    assert node.evicted() == ["first"]
    node.shows(MI)
    await clock.advance(CLEANUP_SECONDS - 6)
    assert node.evicted() == ["first"]
    await clock.advance(1)
    assert node.evicted() == ["first", "first"]
    await node.context.tasks.close()


async def test_pass_runs_every_ten_seconds_or_when_triggered(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW)
    node.shows()
    node.context.tasks.start(node.manager.run(), "rounds")

    await clock.advance(9.9)
    assert len(node.stats.calls) == 1
    await clock.advance(0.2)
    assert len(node.stats.calls) == 2
    node.manager.wake()
    await clock.settle()
    assert node.stats.calls[2:] == [("node", True)]
    await node.context.tasks.close()


async def test_nothing_is_measured_without_thresholds(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node()
    node.context.tasks.start(node.manager.run(), "rounds")

    await clock.advance(60)

    assert node.stats.calls == []
    await node.context.tasks.close()


async def test_pods_are_measured_only_when_needed(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW | {"pid.available": "50"}, local_storage_capacity_isolation=True)
    node.has("plain", memory=MI)
    node.shows()
    await node.manager.synchronize()
    assert node.stats.calls == [("node", True)]

    limited = [make_container(resources={"limits": {"ephemeral-storage": "1Gi"}})]
    node.has("critical", spec={"containers": limited}, critical=True)
    node.shows()
    await node.manager.synchronize()
    assert node.stats.calls[1:] == [("node", True)]

    node.has("limited", spec={"containers": limited})
    node.shows()
    await node.manager.synchronize()
    assert node.stats.calls[2:] == [("node", True), ("pods", True)]


async def test_memory_pressure_is_handled_without_the_runtime(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW | {"pid.available": "500"})
    node.has("small", memory=10 * MI)
    node.has("big", memory=300 * MI)
    node.shows()
    left = 900 * MI
    node.manager.read_memory = lambda: {Signal.MEMORY: MemoryReading(16 * GI, 16 * GI - left, 0)}
    async with TaskOwner("test") as tasks:
        tasks.start(node.manager.run(), "rounds")
        await clock.advance(1)
        node.stats.calls.clear()
        node.stats.fail("node", RuntimeFailure("slow"), times=None)
        node.stats.fail("pods", RuntimeFailure("slow"), times=None)

        node.manager.memory_threshold_crossed()
        await clock.advance(0)

        assert node.stats.calls == [("memory", True)]
        assert node.evicted() == ["big"]
        assert node.manager.conditions == {Condition.MEMORY}
        assert "available: 900Mi. Container main was using 300Mi" in node.pods.kills[0].message
        assert node.woken == 1

        node.manager.memory_threshold_crossed()
        await clock.advance(5)
        assert node.evicted() == ["big"], "its end is waited for"
        node.pods.ended.add("uid-big")
        await clock.advance(1)
        node.manager.memory_threshold_crossed()
        await clock.advance(0)
        assert node.evicted() == ["big", "small"]


async def test_pass_in_progress_does_not_delay_memory_pressure(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("big", memory=300 * MI)
    node.has("other", memory=200 * MI)
    node.shows()
    node.manager.read_memory = lambda: {Signal.MEMORY: MemoryReading(16 * GI, 16 * GI - 900 * MI, 0)}
    async with TaskOwner("test") as tasks:
        tasks.start(node.manager.run(), "rounds")
        await clock.advance(1)
        node.stats.hang("node")
        node.manager.wake()
        await clock.advance(0)

        node.manager.memory_threshold_crossed()
        await clock.advance(0)
        assert node.evicted() == ["big"]

        node.shows(900 * MI)
        node.stats.recover("node")
        await clock.advance(5)
        assert node.evicted() == ["big"], "what was measured before is out of date"
        node.pods.ended.add("uid-big")
        node.shows(2 * GI)
        await clock.advance(20)
        assert node.evicted() == ["big"]


async def test_resolved_memory_pressure_evicts_nothing(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("big", memory=300 * MI)
    node.shows()
    await node.manager.synchronize()
    node.manager.read_memory = lambda: {Signal.MEMORY: MemoryReading(16 * GI, 8 * GI, 0)}

    assert await node.manager.synchronize_memory() == []
    assert node.evicted() == []


async def test_disks_have_a_path_each(make_node: MakeNode, tmp_path: Path) -> None:
    alone, apart, unknown = (make_node(eviction_hard=FEW) for _ in range(3))
    apart.context.images = Elsewhere("/proc")  # type: ignore[assignment]
    unknown.context.images = Elsewhere()  # type: ignore[assignment]
    for node in (alone, apart, unknown):
        assert node.manager.disks == {Signal.NODEFS: tmp_path}
        node.shows()
        await node.manager.synchronize()

    assert unknown.manager.disks == alone.manager.disks == {Signal.NODEFS: tmp_path, Signal.IMAGEFS: tmp_path}
    assert apart.manager.disks == {Signal.NODEFS: tmp_path, Signal.IMAGEFS: Path("/proc")}


@pytest.mark.parametrize("what", ["node", "memory"])
async def test_failed_measurement_evicts_nothing(make_node: MakeNode, what: str) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("a")
    node.shows(0)
    node.stats.fail(what, RuntimeFailure("away"))

    assert await node.manager.synchronize() == []
    node.shows(0)
    assert await node.manager.synchronize() == ["uid-a"]


@pytest.mark.row("config.evictionHard")
async def test_memory_of_all_pods_is_watched_where_it_is_limited(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW, enforce_node_allocatable=("pods",))
    node.has("a")
    node.shows(8 * GI, pods_memory=900 * MI)
    other = make_node(eviction_hard=FEW, enforce_node_allocatable=())
    other.has("a")
    other.shows(8 * GI, pods_memory=900 * MI)

    await node.manager.synchronize()
    await other.manager.synchronize()

    assert (node.evicted(), other.evicted()) == (["a"], [])


# --- disks ----------------------------------------------------------------------------------------------------


async def test_hook_reclaim_disk(make_node: MakeNode) -> None:
    requested: list[str] = []
    node = make_node(eviction_hard={"imagefs.available": "10%"})
    node.has("a")

    async def reclaims(signal: str) -> Reclaimed:
        requested.append(signal)
        node.shows(imagefs=50 * GI)
        return Reclaimed(45 * GI, ["busybox"])

    async def breaks(signal: str) -> Reclaimed:
        raise RuntimeError("no")

    async def has_none(signal: str) -> None:
        return None

    plugin(node, "a_broken", nodeagent_reclaim_disk=breaks)
    plugin(node, "images", nodeagent_reclaim_disk=reclaims)
    plugin(node, "other", nodeagent_reclaim_disk=has_none)
    node.shows(imagefs=5 * GI)

    await node.manager.synchronize()

    assert requested == ["imagefs.available"]
    assert node.evicted() == []
    decisions = [(each.plugin, each.subject, each.verdict) for each in node.plugins.decisions]
    assert decisions == [("images", "imagefs.available", f"{45 * GI} bytes: busybox")]


async def test_pod_is_evicted_if_reclaiming_is_insufficient(make_node: MakeNode) -> None:
    node = make_node(eviction_hard={"nodefs.available": "10%"}, eviction_minimum_reclaim={"nodefs.available": "5Gi"})
    node.has("a", logs=GI)

    async def reclaims(signal: str) -> Reclaimed:
        node.shows(nodefs=14 * GI)
        return Reclaimed(9 * GI)

    plugin(node, "images", nodeagent_reclaim_disk=reclaims)
    node.shows(nodefs=5 * GI)

    await node.manager.synchronize()

    assert node.evicted() == ["a"]
    assert "available: 14Gi" in node.pods.kills[0].message


async def test_nothing_is_reclaimed_on_a_disk_without_images(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(eviction_hard={"nodefs.available": "10%"})
    node.has("a")
    node.context.images = Elsewhere("/proc")  # type: ignore[assignment]

    async def reclaims(signal: str) -> Reclaimed:
        raise AssertionError("asked")

    plugin(node, "images", nodeagent_reclaim_disk=reclaims)
    node.shows(nodefs=5 * GI)

    await node.manager.synchronize()

    assert node.evicted() == ["a"]
    assert not node.plugins.plugins()[0].stats


class Elsewhere:
    """Image service with its images at a path."""

    def __init__(self, *paths: str) -> None:
        self._paths = paths

    async def filesystem_usage(self) -> Sequence[FilesystemUsage]:
        return [FilesystemUsage(path, 0, 0) for path in self._paths]


@pytest.mark.parametrize(
    ("paths", "apart", "gates", "layout"),
    [
        ([], False, {}, Layout.SINGLE),
        ([""], False, {}, Layout.SINGLE),
        (["/nowhere/at/all"], False, {}, Layout.SINGLE),
        (["/proc"], False, {}, Layout.DEDICATED),
        (["/proc"], True, {}, Layout.DEDICATED),
        (["/proc"], True, {"NodeAgentSeparateDiskGC": True}, Layout.SPLIT),
    ],
)
async def test_file_system_layout_is_detected(
    tmp_path: Path, paths: list[str], apart: bool, gates: dict[str, bool], layout: Layout
) -> None:
    found: FeatureGates = build_gates(gates)
    context = make_context(tmp_path, images=Elsewhere(*paths), gates=found, puller=None)
    usage: NodeUsage = node_usage(containerfs=disk(GI) if apart else None)

    assert await detect_layout(context, usage) is layout


@pytest.mark.row("config.localStorageCapacityIsolation")
@pytest.mark.parametrize(("isolation", "evicted"), [(True, ["log", "tmp"]), (False, [])])
async def test_all_pods_over_their_limits_are_evicted_in_one_pass(
    make_node: MakeNode, isolation: bool, evicted: list[str]
) -> None:
    node = make_node(eviction_hard={}, local_storage_capacity_isolation=isolation)
    limits = {"resources": {"limits": {"ephemeral-storage": "1Gi"}}}
    node.has("log", logs=2 * GI, spec={"containers": [make_container(**limits)]})
    node.has("fine", logs=GI, spec={"containers": [make_container(**limits)]})
    volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
    spec = {"containers": ["main"], "volumes": volumes}
    node.has("tmp", spec=spec, volumes={"v": 2 * MI})
    node.has("kept", critical=True, spec=spec, volumes={"v": 2 * MI})
    node.shows()

    await node.manager.synchronize()

    assert sorted(node.evicted()) == evicted
    assert {kill.grace_seconds for kill in node.pods.kills} <= {0}
    assert all(kill.status_reason == "Evicted" for kill in node.pods.kills)


# --- plugins --------------------------------------------------------------------------------------------------


async def test_hook_rank_pods_for_eviction(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("big", memory=3 * GI)
    node.has("middle", memory=2 * GI)
    node.has("small", memory=GI)
    seen: list[tuple[str, list[str]]] = []

    async def turns(signal: str, candidates: Sequence[EvictionCandidate]) -> Sequence[EvictionCandidate]:
        seen.append((signal, [each.pod.name for each in candidates]))
        return list(reversed(candidates))

    async def breaks(signal: str, candidates: Sequence[EvictionCandidate]) -> Sequence[EvictionCandidate]:
        raise RuntimeError("no")

    plugin(node, "a_broken", nodeagent_rank_pods_for_eviction=breaks)
    plugin(node, "turner", nodeagent_rank_pods_for_eviction=turns)
    node.shows(0)

    await node.manager.synchronize()

    assert seen == [("memory.available", ["big", "middle", "small"])]
    assert node.evicted() == ["small"]
    decisions = [(each.plugin, each.hook, each.subject) for each in node.plugins.decisions]
    assert decisions == [
        ("turner", "nodeagent_rank_pods_for_eviction", "order of pods for memory.available"),
        ("eviction", "evict", "default/small"),
    ]


async def test_plugin_cannot_hide_or_add_candidates(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("a", memory=GI)

    async def swaps(candidates: Sequence[EvictionCandidate]) -> Sequence[EvictionCandidate]:
        return [EvictionCandidate(make_pod("stranger"), None)]

    plugin(node, "swaps", nodeagent_rank_pods_for_eviction=swaps)
    node.shows(0)

    await node.manager.synchronize()

    assert node.evicted() == ["a"]


async def test_hook_permit_eviction(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("big", memory=3 * GI)
    node.has("small", memory=GI)
    seen: list[tuple[str, str]] = []

    async def keeps(pod: Pod, signal: str) -> Rejection | None:
        seen.append((pod.name, signal))
        return Rejection("Precious", "it cannot be made again") if pod.name == "big" else None

    async def breaks(pod: Pod, signal: str) -> Rejection | None:
        raise RuntimeError("no")

    plugin(node, "a_broken", nodeagent_permit_eviction=breaks)
    plugin(node, "keeper", nodeagent_permit_eviction=keeps)
    node.shows(0)

    await node.manager.synchronize()

    assert seen == [("big", "memory.available"), ("small", "memory.available")]
    assert node.evicted() == ["small"]
    kept, evicted = node.plugins.decisions
    assert (kept.plugin, kept.subject) == ("keeper", "default/big")
    assert "it cannot be made again" in kept.verdict
    assert (evicted.plugin, evicted.subject) == ("eviction", "default/small")
    assert evicted.verdict.startswith("memory.available: The node was low on resource: memory.")


# --- failures and metrics ------------------------------------------------------------------------------------------


async def test_unavailable_stats_and_their_recovery_are_logged_once(
    make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    node = make_node(eviction_hard=FEW)
    node.shows()
    node.stats.fail("node", RuntimeFailure("away"), times=3)

    for _ in range(5):
        await node.manager.synchronize()

    messages = [message for message in caplog.messages if "summary stats" in message]
    assert messages == [
        "Eviction manager: failed to get summary stats",
        "Eviction manager: summary stats recovered",
    ]


async def test_veto_of_all_evictions_is_logged_once(make_node: MakeNode, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    node = make_node(eviction_hard=FEW)
    node.has("a", memory=GI)

    async def keeps(pod: Pod) -> Rejection | None:
        return Rejection("Precious", "it cannot be made again")

    plugin(node, "keeper", nodeagent_permit_eviction=keeps)
    for _ in range(3):
        node.shows(MI)
        await node.manager.synchronize()

    assert node.evicted() == []
    assert caplog.messages.count("Eviction manager: unable to evict any pods from the node") == 1
    assert node.recorder.reasons() == ["EvictionThresholdMet"]


async def test_age_of_stats_without_a_time_is_not_observed(make_node: MakeNode) -> None:
    node = make_node(eviction_hard={"pid.available": "20%"})
    node.has("a")
    node.shows(pids=999)
    ages = STATS_AGE.count("pid.available")

    await node.manager.synchronize()

    assert (node.evicted(), STATS_AGE.count("pid.available")) == (["a"], ages)
