"""NUMA alignment: merge the topology hints of the resource managers by policy. No I/O.

spec: config.topologyManagerPolicy, config.topologyManagerPolicyOptions
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from nodeagent.contracts.topology import Hint, Hints
from nodeagent_plugins.resource_managers.topology import Topology

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"


WHEREVER = Hint(None, preferred=True)


def masks(nodes: Iterable[int]) -> Iterator[frozenset[int]]:
    """Yield every combination of *nodes*, smallest first, and lowest node numbers first among equal sizes."""
    numbers = sorted(nodes)
    for size in range(1, len(numbers) + 1):
        yield from map(frozenset, sorted(itertools.combinations(numbers, size), key=_bits))


def narrowest(hints: Iterable[Hint]) -> Hint | None:
    """Return the best hint: preferred, then smallest, then with the lowest node numbers."""
    return min(hints, key=lambda hint: (not hint.preferred, *_width(hint.nodes or frozenset())), default=None)


class Alignment:
    """Merges hints according to a policy.

    :param closest: among sets of equal size, prefer the one with the smallest distances.
    """

    def __init__(self, policy: str, topology: Topology, *, closest: bool = False) -> None:
        self.policy, self._topology = policy, topology
        self._closest = closest and policy != SINGLE

    def merge(self, providers: Iterable[Hints]) -> tuple[Hint, bool]:
        """Return the merged hint and whether the policy admits the pod."""
        resources = [hints or [Hint()] for provider in providers for hints in (*provider.values(),)]
        if self.policy == SINGLE:
            resources = [[hint for hint in hints if _single(hint)] for hints in resources]
        everywhere = frozenset(self._topology.nodes)
        merged: set[Hint] = {WHEREVER}
        for hints in resources:  # Pairwise, so that the number of results is limited to the masks.
            merged = {_both(one, other) for one in merged for other in hints}
        whole = [Hint(everywhere if hint.nodes is None else hint.nodes & everywhere, hint.preferred) for hint in merged]
        width = max((_narrowest_width(hints) for hints in resources), default=0)
        candidates = [hint for hint in whole if hint.nodes]
        best = min(candidates, key=lambda hint: self._rank(hint, width), default=Hint(everywhere))
        if self.policy == SINGLE and best.nodes == everywhere:
            best = Hint(None, best.preferred)
        return best, best.preferred or self.policy == BEST_EFFORT

    def _rank(self, hint: Hint, width: int) -> tuple[float, ...]:
        """Return the sort key of a hint: preferred first, then the closest to the required *width*."""
        nodes = hint.nodes or frozenset()
        if hint.preferred:
            nearness = (0, 0)
        elif len(nodes) > width:
            nearness = (3, len(nodes))
        else:
            nearness = (1 if len(nodes) == width else 2, -len(nodes))
        size, bits = _width(nodes)
        return (*nearness, size, self._distance(nodes) if self._closest else 0, bits)

    def _distance(self, nodes: frozenset[int]) -> float:
        """Return the average distance between *nodes*."""
        found = [self._topology.nodes[one].distances.get(other, 0) for one in nodes for other in nodes]
        return sum(found) / len(found)


def _both(one: Hint, other: Hint) -> Hint:
    preferred = one.preferred and other.preferred
    if one.nodes is None or other.nodes is None:
        return Hint(other.nodes if one.nodes is None else one.nodes, preferred)
    return Hint(one.nodes & other.nodes, preferred and one.nodes == other.nodes)


def _single(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)


def _narrowest_width(hints: Iterable[Hint]) -> int:
    return min((len(hint.nodes) for hint in hints if hint.nodes is not None), default=0)


def _width(nodes: frozenset[int]) -> tuple[int, int]:
    return len(nodes), _bits(nodes)


def _bits(nodes: Iterable[int]) -> int:
    return sum(1 << node for node in nodes)
