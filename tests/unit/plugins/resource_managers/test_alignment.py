"""Tests for the topology policies."""

from __future__ import annotations

import pytest

from nodeagent.contracts.topology import Hint
from nodeagent_plugins.resource_managers.alignment import Alignment, masks, narrowest


def hint(*nodes, preferred=True):
    return Hint(frozenset(nodes), preferred)


ONE_OR_TWO = {"cpu": [hint(0), hint(1), hint(0, 1, preferred=False)]}
ONLY_ONE = {"memory": [hint(1), hint(0, 1, preferred=False)]}
WIDE = {"memory": [hint(0, 1, preferred=False)]}


@pytest.mark.row("config.topologyManagerPolicy")
@pytest.mark.parametrize(
    ("policy", "hints", "expected", "fits"),
    [
        ("best-effort", [ONE_OR_TWO, ONLY_ONE], hint(1), True),
        ("best-effort", [{"cpu": [hint(0)]}, {"memory": [hint(1)]}], hint(0, 1, 2, 3, preferred=False), True),
        ("best-effort", [ONE_OR_TWO, WIDE], hint(0, 1, preferred=False), True),
        ("best-effort", [{"cpu": []}], hint(0, 1, 2, 3, preferred=False), True),
        ("restricted", [ONE_OR_TWO, ONLY_ONE], hint(1), True),
        ("restricted", [ONE_OR_TWO, WIDE], hint(0, 1, preferred=False), False),
        ("restricted", [{"cpu": [hint(0, 1)]}], hint(0, 1), True),
        ("restricted", [{"cpu": []}], hint(0, 1, 2, 3, preferred=False), False),
        ("restricted", [{}, {}], hint(0, 1, 2, 3), True),
        ("single-numa-node", [ONE_OR_TWO, ONLY_ONE], hint(1), True),
        ("single-numa-node", [{"cpu": [hint(0, 1)]}], Hint(None, preferred=False), False),
        ("single-numa-node", [{"cpu": []}], Hint(None, preferred=False), False),
        ("single-numa-node", [{}], Hint(None, preferred=True), True),
    ],
)
def test_policy_selects_the_best_hint_and_decides_admission(topology, policy, hints, expected, fits):
    assert Alignment(policy, topology).merge(hints) == (expected, fits)


def test_equal_sizes_select_the_lowest_nodes(topology):
    pairs = {"cpu": [hint(2, 3), hint(0, 3), hint(0, 1)]}
    assert Alignment("restricted", topology).merge([pairs])[0] == hint(0, 1)


@pytest.mark.row("config.topologyManagerPolicyOptions")
def test_closest_nodes_are_selected_by_option(topology):
    pairs = {"cpu": [hint(0, 1), hint(0, 3), hint(2, 3)]}
    assert Alignment("restricted", topology, closest=True).merge([pairs])[0] == hint(0, 3)


def test_masks_are_sorted_by_size():
    assert list(masks([1, 0, 3]))[:4] == [{0}, {1}, {3}, {0, 1}]
    assert len(list(masks(range(8)))) == 255


def test_narrowest_hint_is_preferred_then_small_then_has_the_lowest_nodes():
    assert narrowest([hint(0, preferred=False), hint(1, 2), hint(0, 3), hint(2)]) == hint(2)
    assert narrowest([hint(2), hint(1)]) == hint(1)
    assert narrowest([hint(1), Hint(None, preferred=True)]) == Hint(None, preferred=True)
    assert narrowest([]) is None
