"""Tests for the hooks of the eviction plugin."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.runtime import RuntimePod, SandboxStatus
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock, FakePodDirectory, FakeStats, make_container, make_pod
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import admit, load_plugin
from nodeagent_plugins import eviction
from nodeagent_plugins.eviction.admission import check_admission
from nodeagent_plugins.eviction.memory import MemoryWatch
from nodeagent_plugins.eviction.signals import Condition
from tests.unit.plugins.eviction.usage import node_usage

MEMORY, DISK, PID = Condition.MEMORY, Condition.DISK, Condition.PID
BEST_EFFORT = make_pod("best-effort", containers=["main"])
BURSTABLE = make_pod("burstable", containers=[make_container(resources={"requests": {"memory": "1Mi"}})])
CRITICAL = make_pod("critical", containers=["main"], priority=2_000_000_000)
STATIC = make_pod("static", containers=["main"], annotations={"kubernetes.io/config.source": "file"})


def tolerant(**toleration: str) -> Pod:
    return make_pod("tolerant", containers=["main"], tolerations=[toleration])


@pytest.mark.parametrize(
    ("pod", "conditions", "admitted"),
    [
        (BEST_EFFORT, set(), True),
        (BEST_EFFORT, {MEMORY}, False),
        (BURSTABLE, {MEMORY}, True),
        (BURSTABLE, {DISK}, False),
        (BURSTABLE, {PID}, False),
        (BURSTABLE, {MEMORY, DISK}, False),
        (CRITICAL, {MEMORY, DISK, PID}, True),
        (STATIC, {DISK}, True),
        (tolerant(key="node.kubernetes.io/memory-pressure", operator="Exists"), {MEMORY}, True),
        (tolerant(key="node.kubernetes.io/memory-pressure", effect="NoSchedule"), {MEMORY}, True),
        (tolerant(operator="Exists"), {MEMORY}, True),
        (tolerant(key="node.kubernetes.io/memory-pressure", operator="Exists", effect="NoExecute"), {MEMORY}, False),
        (tolerant(key="node.kubernetes.io/memory-pressure", operator="Equal", value="x"), {MEMORY}, False),
        (tolerant(key="node.kubernetes.io/disk-pressure", operator="Exists"), {DISK}, False),
    ],
)
def test_admission_under_pressure(pod: Pod, conditions: set[Condition], admitted: bool):
    assert (check_admission(pod, conditions) is None) is admitted


def test_rejection_names_the_conditions():
    rejected = check_admission(BEST_EFFORT, {MEMORY, DISK})

    assert rejected is not None
    assert (rejected.reason, rejected.message) == (
        "Evicted",
        "The node had condition: [DiskPressure MemoryPressure]. ",
    )


async def test_pressure_is_reported_and_rejects_only_new_pods(tmp_path: Path, clock: FakeClock, caplog):
    stats, pods = FakeStats(node_usage(0)), FakePodDirectory()
    config = make_config(eviction_hard={"memory.available": "1Gi", "pid.available": "1k"})
    context = make_context(tmp_path, clock=clock, config=config, stats=stats, pods=pods)
    manager = load_plugin(eviction, name="eviction", context=context)

    assert (await manager.gather("nodeagent_report_node"))[0].value.conditions == []
    assert await admit(manager, BEST_EFFORT) is None
    loops = manager.provide_all("nodeagent_provide_background_loops", context=context)[0].value
    rounds = next(loop for loop in loops if loop.name == "rounds")
    task = context.tasks.start(rounds.run(), "rounds")
    await clock.settle()

    (result,) = await manager.gather("nodeagent_report_node")
    assert [(each.type, each.status, each.reason, each.message) for each in result.value.conditions] == [
        ("MemoryPressure", True, "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("PIDPressure", True, "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ]
    caplog.set_level(logging.INFO)
    assert await admit(manager, BEST_EFFORT) is not None
    (record,) = [each for each in caplog.records if each.getMessage() == "Failed to admit pod to node"]
    assert record.__dict__["nodeCondition"] == ["MemoryPressure", "PIDPressure"]
    sandbox = SandboxStatus("s", "best-effort", BEST_EFFORT.uid, "default", 0, ready=True, created_at=0)
    pods.add(BEST_EFFORT, observed=RuntimePod(BEST_EFFORT.uid, "best-effort", "default", [sandbox]))
    assert await admit(manager, BEST_EFFORT) is None
    task.cancel()
    await context.tasks.close()


@pytest.mark.parametrize(
    ("hard", "names"),
    [
        ({"memory.available": "1Gi"}, ["rounds", "memory"]),
        ({"nodefs.inodesFree": "5%"}, ["rounds", "disk"]),
        ({"imagefs.available": "5%"}, ["rounds", "disk"]),
        ({"pid.available": "5%"}, ["rounds"]),
        ({}, ["rounds"]),
    ],
)
def test_memory_and_disk_are_watched_if_a_threshold_requires_it(
    tmp_path: Path, clock: FakeClock, hard: dict[str, str], names: Sequence[str]
):
    context = make_context(tmp_path, clock=clock, config=make_config(eviction_hard=hard))
    manager = load_plugin(eviction, name="eviction", context=context)

    (result,) = manager.provide_all("nodeagent_provide_background_loops", context=context)

    assert [loop.name for loop in result.value] == names


@pytest.mark.row("config.kernelMemcgNotification")
@pytest.mark.parametrize(
    ("kernel", "enforced", "signals"),
    [
        (True, ("pods",), {Signal.MEMORY, Signal.ALLOCATABLE_MEMORY}),
        (False, ("pods",), {Signal.MEMORY, Signal.ALLOCATABLE_MEMORY}),
        (True, (), {Signal.MEMORY}),
    ],
)
def test_kernel_notifications_are_used_if_configured(
    tmp_path: Path,
    clock: FakeClock,
    kernel: bool,
    enforced: tuple[str, ...],
    signals: set[Signal],
    monkeypatch: pytest.MonkeyPatch,
):
    made: list[tuple[set[Signal], bool]] = []

    class Watch(MemoryWatch):
        def __init__(self, *arguments: Any, kernel: bool) -> None:
            made.append((set(arguments[1]), kernel))
            super().__init__(*arguments, kernel=kernel)

    monkeypatch.setattr(eviction, "MemoryWatch", Watch)
    config = make_config(kernel_memcg_notification=kernel, enforce_node_allocatable=enforced)
    context = make_context(tmp_path, clock=clock, config=config)
    manager = load_plugin(eviction, name="eviction", context=context)

    manager.provide_all("nodeagent_provide_background_loops", context=context)

    assert made == [(signals, kernel)]
