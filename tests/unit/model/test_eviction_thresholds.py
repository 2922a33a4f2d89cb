"""Tests for eviction thresholds and the resources that they reserve."""

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


def test_amounts_are_parsed():
    assert parse_amount("10%").fraction == pytest.approx(0.1)
    assert parse_amount("100%").disabled
    assert parse_amount("0%").disabled
    assert parse_amount("1Gi").quantity == Quantity.parse("1Gi")
    assert not parse_amount("0", zero=True).disabled


@pytest.mark.parametrize(("text", "expected"), [("1Ki", 1024), ("10%", 100), ("2.5%", 25), ("57%", 570)])
def test_percentage_is_of_the_capacity(text: str, expected: int):
    assert parse_amount(text).of(1000) == expected


@pytest.mark.parametrize("text", ["10", "1Gi", "2.5%", "57%"])
def test_amount_keeps_its_text(text: str):
    assert str(parse_amount(text)) == text


def test_thresholds_have_grace_period_and_minimum_reclaim():
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


def test_allocatable_memory_has_the_hard_threshold():
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


def test_soft_signal_without_grace_period_is_rejected():
    with pytest.raises(ValueError, match=r"memory\.available needs a grace period"):
        read_thresholds(hard={}, soft={"memory.available": "10%"}, soft_grace={}, minimum_reclaim={})


def test_thresholds_of_computed_signals_are_ignored():
    assert read_thresholds(hard={"containerfs.available": "5%"}, soft={}, soft_grace={}, minimum_reclaim={}) == ()


def test_hard_thresholds_reserve_memory_and_node_disk():
    capacity = {"memory": Quantity.parse("20Gi"), "ephemeral-storage": Quantity.parse("100Gi"), "cpu": Quantity(4)}
    hard = {"memory.available": "1Gi", "nodefs.available": "10%", "imagefs.available": "15%", "pid.available": "1k"}

    found = reserved_for_eviction(hard, capacity)

    assert {name: str(amount) for name, amount in found.items()} == {"memory": "1Gi", "ephemeral-storage": "10Gi"}


def test_missing_resource_or_disabled_signal_reserves_nothing():
    assert reserved_for_eviction({"memory.available": "100%", "nodefs.available": "10%"}, {"memory": Quantity(9)}) == {}
