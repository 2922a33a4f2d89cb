"""Thresholds are amounts or percentages, hard or soft, and hard ones keep something free."""

from __future__ import annotations

import pytest

from nodeagent.base.quantity import Quantity
from nodeagent.model.eviction_thresholds import (
    Amount,
    Signal,
    Threshold,
    parse_amount,
    read_thresholds,
    reserved_for_eviction,
)


def test_amounts_are_read():
    assert parse_amount("10%").fraction == pytest.approx(0.1)
    assert parse_amount("100%").disabled
    assert parse_amount("0%").disabled
    assert parse_amount("1Gi").quantity == Quantity.parse("1Gi")
    assert not parse_amount("0", zero=True).disabled


@pytest.mark.parametrize(("text", "expected"), [("1Ki", 1024), ("10%", 100), ("2.5%", 25), ("57%", 570)])
def test_percentages_are_taken_of_the_capacity(text: str, expected: int):
    assert parse_amount(text).of(1000) == expected


@pytest.mark.parametrize("text", ["10", "1Gi", "2.5%", "57%"])
def test_amounts_are_shown_as_they_are_written(text: str):
    assert str(parse_amount(text)) == text


def test_soft_thresholds_carry_their_grace_and_both_kinds_the_minimum_reclaim():
    found = read_thresholds(
        hard={"memory.available": "100Mi", "nodefs.available": "10%", "imagefs.available": "100%"},
        soft={"memory.available": "300Mi"},
        soft_grace={"memory.available": "1m30s", "pid.available": "1s"},
        minimum_reclaim={"memory.available": "0", "nodefs.available": "500Mi"},
    )

    none = Amount(Quantity())
    assert found == (
        Threshold(Signal.MEMORY, Amount(Quantity.parse("100Mi")), minimum_reclaim=none),
        Threshold(Signal.NODEFS, Amount(fraction=0.1), minimum_reclaim=Amount(Quantity.parse("500Mi"))),
        Threshold(Signal.MEMORY, Amount(Quantity.parse("300Mi")), False, 90.0, none),
    )


def test_memory_of_all_pods_is_watched_by_the_hard_threshold_alone():
    found = read_thresholds(
        hard={"memory.available": "5%"},
        soft={"memory.available": "10%"},
        soft_grace={"memory.available": "1s"},
        minimum_reclaim={"memory.available": "1Gi"},
        allocatable=True,
    )

    assert [each for each in found if each.signal is Signal.ALLOCATABLE_MEMORY] == [
        Threshold(Signal.ALLOCATABLE_MEMORY, Amount(fraction=0.05), minimum_reclaim=Amount(Quantity.parse("1Gi")))
    ]


def test_a_soft_signal_without_grace_is_refused():
    with pytest.raises(ValueError, match=r"memory\.available needs a grace period"):
        read_thresholds(hard={}, soft={"memory.available": "10%"}, soft_grace={}, minimum_reclaim={})


def test_computed_signals_set_nothing():
    assert read_thresholds(hard={"containerfs.available": "5%"}, soft={}, soft_grace={}, minimum_reclaim={}) == ()


def test_hard_thresholds_of_memory_and_node_disk_are_kept_free():
    capacity = {"memory": Quantity.parse("20Gi"), "ephemeral-storage": Quantity.parse("100Gi"), "cpu": Quantity(4)}
    hard = {"memory.available": "1Gi", "nodefs.available": "10%", "imagefs.available": "15%", "pid.available": "1k"}

    found = reserved_for_eviction(hard, capacity)

    assert {name: str(amount) for name, amount in found.items()} == {"memory": "1Gi", "ephemeral-storage": "10Gi"}


def test_nothing_is_kept_free_of_what_is_not_there_or_switched_off():
    assert reserved_for_eviction({"memory.available": "100%", "nodefs.available": "10%"}, {"memory": Quantity(9)}) == {}
