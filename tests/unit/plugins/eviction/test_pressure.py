"""Tests for thresholds and conditions over several passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nodeagent.contracts.stats import FilesystemStats, MemoryStats
from nodeagent.model.eviction_thresholds import Signal, Threshold, parse_amount, read_thresholds
from nodeagent_plugins.eviction.pressure import Pressure
from nodeagent_plugins.eviction.signals import Condition, Layout, Observation, is_met, observe, with_computed
from tests.unit.plugins.eviction.usage import GI, MI, disk, node_usage

HARD = Threshold(Signal.MEMORY, parse_amount("100Mi"))
SOFT = Threshold(Signal.MEMORY, parse_amount("1Gi"), False, 60.0)


def seen(memory: int, time: int = 1) -> dict[Signal, Observation]:
    return {Signal.MEMORY: Observation(memory, 16 * GI, time)}


# --- what is observed -----------------------------------------------------------------------------------------


def test_every_signal_is_observed():
    found = observe(
        node_usage(
            3 * GI,
            nodefs=disk(5 * GI, inodes_free=50),
            imagefs=disk(7 * GI, inodes_free=70),
            containerfs=disk(9 * GI, inodes_free=90),
            pids=400,
            pods_memory=2 * GI,
        )
    )

    assert {signal: (each.available, each.capacity) for signal, each in found.items()} == {
        Signal.MEMORY: (3 * GI, 16 * GI),
        Signal.ALLOCATABLE_MEMORY: (2 * GI, 14 * GI),
        Signal.NODEFS: (5 * GI, 100 * GI),
        Signal.NODEFS_INODES: (50, 1000),
        Signal.IMAGEFS: (7 * GI, 100 * GI),
        Signal.IMAGEFS_INODES: (70, 1000),
        Signal.CONTAINERFS: (9 * GI, 100 * GI),
        Signal.CONTAINERFS_INODES: (90, 1000),
        Signal.PID: (600, 1000),
    }


def test_unknown_signal_meets_no_threshold():
    assert not is_met(HARD, {})


@pytest.mark.parametrize(
    ("limit", "available", "met"),
    [("1Gi", GI, False), ("1Gi", GI - 1, True), ("10%", int(1.5 * GI), True), ("10%", 2 * GI, False)],
)
def test_threshold_is_met_below_its_limit(limit: str, available: int, met: bool):
    assert is_met(Threshold(Signal.MEMORY, parse_amount(limit)), seen(available)) is met


def test_separate_layer_disk_has_the_thresholds_of_the_node():
    threshold = Threshold(Signal.NODEFS, parse_amount("10%"))

    assert [each.signal for each in with_computed([threshold], Layout.SPLIT)] == [Signal.NODEFS, Signal.CONTAINERFS]
    assert with_computed([threshold], Layout.DEDICATED) == (threshold,)


# --- from round to round --------------------------------------------------------------------------------------


def test_hard_threshold_is_acted_on_immediately():
    pressure = Pressure([HARD], 300)

    assert pressure.update(seen(99 * MI), 0) == [HARD]
    assert pressure.conditions == {Condition.MEMORY}


@pytest.mark.row("config.evictionSoftGracePeriod")
def test_soft_threshold_must_be_met_throughout_its_grace_period():
    pressure = Pressure([SOFT], 300)

    assert pressure.update(seen(GI - 1, 1), 0) == []
    assert pressure.conditions == {Condition.MEMORY}
    assert pressure.update(seen(2 * GI, 2), 30) == []
    assert pressure.update(seen(GI - 1, 3), 40) == []
    assert pressure.update(seen(GI - 1, 4), 99) == []
    assert pressure.update(seen(GI - 1, 5), 100) == [SOFT]


@pytest.mark.row("config.evictionMinimumReclaim")
def test_threshold_remains_met_until_its_minimum_is_reclaimed():
    threshold = Threshold(Signal.MEMORY, parse_amount("1Gi"), minimum_reclaim=parse_amount("500Mi"))
    pressure = Pressure([threshold], 300)

    assert pressure.update(seen(GI + 1, 1), 0) == []
    assert pressure.update(seen(GI - 1, 2), 10) == [threshold]
    assert pressure.update(seen(GI + 499 * MI, 3), 20) == [threshold]
    assert pressure.update(seen(GI + 500 * MI, 4), 30) == []
    assert pressure.update(seen(GI + 499 * MI, 5), 40) == []


@pytest.mark.row("config.evictionPressureTransitionPeriod")
def test_condition_is_reported_for_the_transition_period():
    pressure = Pressure([HARD], 300)
    pressure.update(seen(MI, 1), 0)
    pressure.update(seen(MI, 2), 10)

    pressure.update(seen(GI, 3), 309)
    assert pressure.conditions == {Condition.MEMORY}
    pressure.update(seen(GI, 4), 310)
    assert pressure.conditions == set()


def test_condition_is_reported_without_a_transition_period():
    pressure = Pressure([HARD], 0)

    pressure.update(seen(MI, 1), 0)
    assert pressure.conditions == {Condition.MEMORY}
    pressure.update(seen(GI, 2), 0.1)
    assert pressure.conditions == set()


def test_signal_without_new_measurement_is_not_acted_on_twice():
    pressure = Pressure([HARD], 300)

    assert pressure.update(seen(MI, 5), 0) == [HARD]
    assert pressure.update(seen(MI, 5), 1) == []
    assert pressure.update(seen(MI, 6), 2) == [HARD]


def test_memory_and_hard_thresholds_are_most_urgent():
    nodefs = Threshold(Signal.NODEFS, parse_amount("10%"))
    soft = Threshold(Signal.MEMORY, parse_amount("1Gi"), False, 0.0)
    pressure = Pressure([nodefs, soft, HARD], 300)

    due = pressure.update({**seen(MI), Signal.NODEFS: Observation(1, 100, 1)}, 0)

    assert due == [HARD, soft, nodefs]
    assert pressure.conditions == {Condition.MEMORY, Condition.DISK}


def test_memory_of_all_pods_has_a_separate_threshold():
    thresholds = read_thresholds(
        hard={"memory.available": "1Gi"}, soft={}, soft_grace={}, minimum_reclaim={}, allocatable=True
    )
    pressure = Pressure(thresholds, 300)

    (due,) = pressure.update(observe(node_usage(8 * GI, pods_memory=GI - 1)), 0)

    assert due.signal is Signal.ALLOCATABLE_MEMORY
    assert pressure.conditions == {Condition.MEMORY}


@pytest.mark.parametrize(
    ("changes", "unknown"),
    [
        ({"max_pids": None}, {Signal.PID}),
        ({"current_pids": None}, {Signal.PID}),
        ({"memory": None}, {Signal.MEMORY}),
        ({"memory": MemoryStats(1, available_bytes=GI)}, {Signal.MEMORY}),
        ({"memory": MemoryStats(1, working_set_bytes=GI)}, {Signal.MEMORY}),
        ({"filesystem": None}, {Signal.NODEFS, Signal.NODEFS_INODES}),
        ({"filesystem": FilesystemStats(1, available_bytes=1, inodes=9, inodes_free=1)}, {Signal.NODEFS}),
        ({"filesystem": FilesystemStats(1, capacity_bytes=1, inodes=9, inodes_free=1)}, {Signal.NODEFS}),
        ({"filesystem": FilesystemStats(1, available_bytes=1, capacity_bytes=9, inodes=9)}, {Signal.NODEFS_INODES}),
        ({"filesystem": disk(GI, inodes_free=0, inodes=0)}, {Signal.NODEFS_INODES}),
    ],
)
def test_incomplete_measurement_is_not_observed(changes: dict[str, Any], unknown: set[Signal]):
    complete = observe(node_usage())

    assert complete.keys() - observe(replace(node_usage(), **changes)).keys() == unknown
