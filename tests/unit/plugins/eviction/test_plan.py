"""Tests for eviction plans."""

from __future__ import annotations

from nodeagent.contracts.eviction import PlanRequest, ThresholdMaps
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent.testing import make_container
from tests.unit.plugins.eviction.node import MakeNode, plugin
from tests.unit.plugins.eviction.usage import GI, MI

FEW = {"memory.available": "1Gi"}


async def test_plan_lists_candidates_and_evicts_nothing(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("big", memory=3 * GI)
    node.has("kept", memory=2 * GI)
    node.has("small", memory=GI)
    node.has("static", critical=True)

    async def keeps(pod: Pod) -> Rejection | None:
        return Rejection("Precious", "it cannot be made again") if pod.name == "kept" else None

    plugin(node, "keeper", nodeagent_permit_eviction=keeps)
    node.shows(900 * MI)

    plan = await node.manager.plan(PlanRequest())

    assert (plan.node, plan.signal, plan.reclaims_disk) == ("node-1", "memory.available", False)
    (row,) = [each for each in plan.thresholds if each.signal == "memory.available"]
    assert (row.limit, row.quantity, row.available, row.met, row.due_in_seconds) == ("1Gi", GI, 900 * MI, True, 0)
    assert [(pod.name, pod.verdict, pod.plugin) for pod in plan.pods] == [
        ("big", "evict", ""),
        ("kept", "spared", "keeper"),
        ("small", "next", ""),
        ("static", "critical", ""),
    ]
    assert plan.pods[0].why == "uses 3Gi of memory, more than its request of 0; priority 0"
    assert node.evicted() == []


async def test_plan_for_other_thresholds_does_not_change_the_configured_ones(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.has("a", memory=3 * GI)
    node.shows(8 * GI)
    soft = ThresholdMaps(soft={"memory.available": "9Gi"}, soft_grace={"memory.available": "30s"})

    now = await node.manager.plan(PlanRequest())
    hard = await node.manager.plan(PlanRequest(thresholds=ThresholdMaps(hard={"memory.available": "9Gi"})))
    later = await node.manager.plan(PlanRequest(thresholds=soft))

    assert (now.signal, now.pods[0].verdict) == ("", "next")
    assert (hard.signal, hard.pods[0].verdict) == ("memory.available", "evict")
    assert (later.signal, later.thresholds[0].due_in_seconds) == ("", 30)
    assert await node.manager.synchronize() == []


async def test_plan_lists_pods_over_their_limits_first(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW, local_storage_capacity_isolation=True)
    limits = {"resources": {"limits": {"ephemeral-storage": "1Gi"}}}
    node.has("log", logs=2 * GI, spec={"containers": [make_container(**limits)]})
    node.has("big", memory=GI)
    node.shows(0)

    plan = await node.manager.plan(PlanRequest())

    assert [(pod.name, pod.verdict) for pod in plan.over_limits] == [("log", "evict")]
    assert "exceeds the total limit of containers 1Gi." in plan.over_limits[0].why
    assert {pod.verdict for pod in plan.pods} == {"next"}


async def test_plan_evicts_for_the_most_urgent_threshold_first(make_node: MakeNode) -> None:
    node = make_node(eviction_hard={"nodefs.available": "20%"} | FEW)
    node.has("a", memory=GI)
    node.shows(900 * MI, nodefs=GI)

    plan = await node.manager.plan(PlanRequest())

    assert [each.signal for each in plan.thresholds if each.met] == ["nodefs.available", "memory.available"]
    assert plan.signal == plan.ranked_for == "memory.available"


async def test_plan_considers_the_minimum_reclaim_of_a_threshold_met_before(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW, eviction_minimum_reclaim={"memory.available": "1Gi"})
    node.has("a", memory=GI)

    async def row() -> tuple[bool, str]:
        node.shows(int(1.5 * GI))
        found, *_ = (await node.manager.plan(PlanRequest())).thresholds
        return found.met, found.minimum_reclaim

    assert await row() == (False, "1Gi")
    node.shows(900 * MI)
    await node.manager.synchronize()
    assert await row() == (True, "1Gi")


async def test_threshold_without_minimum_reclaim_is_planned_without_one(make_node: MakeNode) -> None:
    node = make_node(eviction_hard=FEW)
    node.shows()

    row, *_ = (await node.manager.plan(PlanRequest())).thresholds

    assert row.minimum_reclaim == ""
