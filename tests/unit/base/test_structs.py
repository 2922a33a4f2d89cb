"""Tests for structs as data classes: what third-party code may do with them."""

import dataclasses
from functools import cached_property

import msgspec
import pytest

from nodeagent.base.structs import MutableStruct, Struct


class Point(Struct, frozen=True, dict=True):
    x: int
    y: int = 0
    names: list[str] = msgspec.field(default_factory=list)

    @cached_property
    def total(self) -> int:
        return self.x + self.y


class Counter(MutableStruct):
    count: int = 0


def test_functions_for_data_classes_accept_structs():
    point = Point(1)

    assert dataclasses.is_dataclass(Point)
    assert dataclasses.is_dataclass(point)
    assert [field.name for field in dataclasses.fields(point)] == ["x", "y", "names"]
    assert dataclasses.replace(point, y=2) == Point(1, 2)
    assert dataclasses.asdict(point) == {"x": 1, "y": 0, "names": []}


def test_struct_is_immutable_and_hashable():
    point = Point(1, names=())

    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2
    assert {point: 1}[Point(1, names=())] == 1
    assert point.total == 1


def test_mutable_struct_accepts_assignments_to_its_fields_only():
    counter = Counter()
    counter.count += 1

    assert counter == Counter(1)
    with pytest.raises(AttributeError):
        counter.other = 1
