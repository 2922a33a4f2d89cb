"""Tests for soft thresholds, and for the grace periods of evicted pods."""

from __future__ import annotations

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.model.eviction_thresholds import Signal
from nodeagent.testing import FakeClock
from nodeagent_plugins.eviction.manager import CLEANUP_SECONDS
from nodeagent_plugins.eviction.memory import MemoryReading
from nodeagent_plugins.eviction.signals import Condition
from tests.unit.plugins.eviction.node import MakeNode
from tests.unit.plugins.eviction.usage import GI, MI

FEW = {"memory.available": "1Gi"}


@pytest.mark.row("config.evictionSoft", "config.evictionSoftGracePeriod", "config.evictionMaxPodGracePeriod")
@pytest.mark.parametrize(("longest", "grace"), [(0, None), (7, 7), (500, 500)])
async def test_soft_threshold_grants_pods_a_grace_period(
    make_node: MakeNode, clock: FakeClock, longest: int, grace: int | None
) -> None:
    node = make_node(
        eviction_soft=FEW,
        eviction_soft_grace_period={"memory.available": "30s"},
        eviction_max_pod_grace_period=longest,
    )
    node.has("a", memory=GI)

    node.shows(900 * MI)
    await node.manager.synchronize()
    assert node.evicted() == []
    assert node.manager.conditions == {Condition.MEMORY}
    clock.jump(30)
    node.shows(900 * MI)
    await node.manager.synchronize()

    assert [kill.grace_seconds for kill in node.pods.kills] == [grace]


async def test_only_soft_thresholds_wait_for_a_pod_within_its_grace_period(
    make_node: MakeNode, clock: FakeClock
) -> None:
    node = make_node(
        eviction_hard={"memory.available": "100Mi"},
        eviction_soft=FEW,
        eviction_soft_grace_period={"memory.available": "0s"},
        eviction_max_pod_grace_period=60,
    )
    node.has("a", memory=2 * GI)
    node.has("b", memory=GI)
    node.shows(900 * MI)
    await node.manager.synchronize()
    clock.jump(CLEANUP_SECONDS)

    node.shows(900 * MI)
    await node.manager.synchronize()
    assert node.evicted() == ["a"]
    node.shows(MI)
    await node.manager.synchronize()
    assert node.evicted() == ["a", "a"]
    assert [kill.grace_seconds for kill in node.pods.kills] == [60, 0]
    node.shows(MI)
    await node.manager.synchronize()
    assert node.evicted() == ["a", "a", "b"]


@pytest.mark.row("config.evictionPressureTransitionPeriod")
async def test_condition_outlasts_the_pressure_by_the_transition_period(make_node: MakeNode, clock: FakeClock) -> None:
    node = make_node(eviction_hard=FEW, eviction_pressure_transition_period=Duration.of(seconds=42))
    node.shows(0)
    await node.manager.synchronize()
    clock.jump(41)
    node.shows()
    await node.manager.synchronize()
    assert node.manager.conditions == {Condition.MEMORY}

    clock.jump(1)
    node.shows()
    await node.manager.synchronize()

    assert node.manager.conditions == set()
    assert node.woken == 2


@pytest.mark.row("config.evictionMinimumReclaim")
async def test_eviction_continues_until_the_minimum_reclaim_is_reached(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW, eviction_minimum_reclaim={"memory.available": "1Gi"})
    for name, used in (("first", 3 * GI), ("second", 2 * GI), ("third", GI)):
        node.has(name, memory=used)

    for left in (900 * MI, 2 * GI - 1, 2 * GI):
        node.shows(left)
        await node.manager.synchronize()

    assert node.evicted() == ["first", "second"]


@pytest.mark.row("config.evictionMaxPodGracePeriod")
@pytest.mark.parametrize(("minor", "longest", "grace"), [(31, 500, 500), (32, 500, 20), (36, 7, 7), (36, 0, None)])
async def test_maximum_grace_limits_that_of_the_pod_by_release(
    make_node: MakeNode, minor: int, longest: int, grace: int | None
) -> None:
    node = make_node(
        eviction_soft=FEW,
        eviction_soft_grace_period={"memory.available": "0s"},
        eviction_max_pod_grace_period=longest,
    )
    node.context.release = SelectedRelease(Release(1, minor))  # type: ignore[misc]
    node.has("a", spec={"containers": ["main"], "termination_grace_period_seconds": 20}, memory=GI)

    for _ in range(2):
        node.shows(900 * MI)
        await node.manager.synchronize()

    assert [kill.grace_seconds for kill in node.pods.kills] == [grace]


@pytest.mark.parametrize(("own", "seconds"), [(600, 600), (None, 30)])
async def test_soft_threshold_waits_for_the_grace_period_of_an_evicted_pod(
    make_node: MakeNode, clock: FakeClock, own: int | None, seconds: int
) -> None:
    node = make_node(eviction_soft=FEW, eviction_soft_grace_period={"memory.available": "0s"})
    spec = {"containers": ["main"], "termination_grace_period_seconds": own}
    for name, used in (("first", 2 * GI), ("second", GI)):
        node.has(name, memory=used, spec=spec)
    node.shows(MI)
    await node.manager.synchronize()
    clock.jump(CLEANUP_SECONDS - 1)

    for left, evicted in ((seconds, ["first"]), (1, ["first", "second"])):
        node.shows(MI)
        await node.manager.synchronize()
        clock.jump(left)
        node.shows(MI)
        if left == 1:
            await node.manager.synchronize()
        assert node.evicted() == evicted


async def test_reported_memory_pressure_waits_for_a_pod_within_its_grace_period(make_node: MakeNode) -> None:
    node = make_node(eviction_soft=FEW, eviction_soft_grace_period={"memory.available": "0s"})
    node.has("a", memory=2 * GI)
    node.has("b", memory=GI)
    node.shows()
    await node.manager.synchronize()
    node.manager.read_memory = lambda: {Signal.MEMORY: MemoryReading(16 * GI, 16 * GI - 900 * MI, 0)}

    for _ in range(2):
        await node.manager.synchronize_memory()
        node.clock.jump(1)

    assert node.evicted() == ["a"]
