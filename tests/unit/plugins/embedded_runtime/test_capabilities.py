"""A container gets the usual capabilities, as changed by its pod, and never more than the runtime has."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime.capabilities import DEFAULT, compute_capabilities, from_mask
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES


def compute(add=(), drop=(), privileged=False, held=NAMES):
    return {name.removeprefix("CAP_") for name in compute_capabilities(add, drop, privileged=privileged, held=held)}


def test_the_usual_ones():
    assert compute() == DEFAULT


def test_added_and_dropped_with_and_without_prefix():
    assert compute(add=["CAP_SYS_TIME"], drop=["chown"]) == (DEFAULT | {"SYS_TIME"}) - {"CHOWN"}


def test_all_dropped_but_one():
    assert compute(add=["KILL"], drop=["ALL"]) == {"KILL"}


def test_all_added_but_one():
    assert compute(add=["ALL"], drop=["KILL"]) == set(NAMES) - {"KILL"}


def test_privileged_is_all_that_the_runtime_has():
    assert compute(privileged=True, held=["CHOWN", "KILL"]) == {"CHOWN", "KILL"}


def test_unknown_capability_is_rejected():
    with pytest.raises(InvalidArgument, match="unknown capability FLY"):
        compute(add=["FLY"])


def test_a_mask_names_its_bits():
    assert from_mask(0b100001) == {"CHOWN", "KILL"}
