"""Tests for the functions that all objects share."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery import objects


def test_clone_is_equal_and_independent() -> None:
    obj = {"metadata": {"labels": {"a": "b"}}, "spec": {"items": [{"n": 1}, [True, None, 0.5]]}}

    copy = objects.clone(obj)
    assert copy == obj
    copy["metadata"]["labels"]["a"] = "c"
    copy["spec"]["items"][0]["n"] = 2
    copy["spec"]["items"][1].append(3)

    assert obj == {"metadata": {"labels": {"a": "b"}}, "spec": {"items": [{"n": 1}, [True, None, 0.5]]}}


@pytest.mark.parametrize(
    ("generation", "following"), [(None, 1), (1, 2), ((1 << 63) - 2, (1 << 63) - 1), ((1 << 63) - 1, -(1 << 63))]
)
def test_generation_remains_an_integer_of_64_bits(generation: int | None, following: int) -> None:
    assert objects.next_generation({"generation": generation}) == following
