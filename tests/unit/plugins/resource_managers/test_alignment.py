"""Hints are merged as each policy does."""

from __future__ import annotations

import pytest

from nodeagent_plugins.resource_managers.alignment import Alignment, Hint, masks


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
def test_each_policy_takes_the_best_and_refuses_what_it_must(topology, policy, hints, expected, fits):
    assert Alignment(policy, topology).merge(hints) == (expected, fits)


def test_of_equally_wide_choices_that_of_the_lowest_nodes_is_taken(topology):
    pairs = {"cpu": [hint(2, 3), hint(0, 3), hint(0, 1)]}
    assert Alignment("restricted", topology).merge([pairs])[0] == hint(0, 1)


@pytest.mark.row("config.topologyManagerPolicyOptions")
def test_the_nearest_nodes_are_taken_when_asked_for(topology):
    pairs = {"cpu": [hint(0, 1), hint(0, 3), hint(2, 3)]}
    assert Alignment("restricted", topology, closest=True).merge([pairs])[0] == hint(0, 3)


def test_masks_come_the_narrowest_first():
    assert list(masks([1, 0, 3]))[:4] == [{0}, {1}, {3}, {0, 1}]
    assert len(list(masks(range(8)))) == 255
