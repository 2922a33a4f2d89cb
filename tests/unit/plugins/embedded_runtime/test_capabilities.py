"""Tests for the capabilities of containers."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime.capabilities import DEFAULT, compute_capabilities, from_mask
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES


def compute(add=(), drop=(), privileged=False, held=NAMES):
    return {name.removeprefix("CAP_") for name in compute_capabilities(add, drop, privileged=privileged, held=held)}


def test_default_capabilities_are_granted():
    assert compute() == DEFAULT


def test_capability_names_are_accepted_with_and_without_prefix():
    assert compute(add=["CAP_SYS_TIME"], drop=["chown"]) == (DEFAULT | {"SYS_TIME"}) - {"CHOWN"}


def test_added_capability_remains_if_all_are_dropped():
    assert compute(add=["KILL"], drop=["ALL"]) == {"KILL"}


def test_dropped_capability_is_removed_if_all_are_added():
    assert compute(add=["ALL"], drop=["KILL"]) == set(NAMES) - {"KILL"}


def test_privileged_container_gets_all_capabilities_of_the_runtime():
    assert compute(privileged=True, held=["CHOWN", "KILL"]) == {"CHOWN", "KILL"}


def test_unknown_capability_is_rejected():
    with pytest.raises(InvalidArgument, match="unknown capability FLY"):
        compute(add=["FLY"])


def test_mask_is_converted_to_names():
    assert from_mask(0b100001) == {"CHOWN", "KILL"}
