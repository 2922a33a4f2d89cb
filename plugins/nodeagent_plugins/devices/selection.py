"""Selection of devices for an allocation by NUMA node and preference, and topology hints. No I/O."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from nodeagent.base.structs import Struct
from nodeagent.contracts.topology import Hint

Nodes = Mapping[str, Collection[int]]
"""NUMA nodes by device; devices without NUMA nodes are absent."""


def in_order(ids: Iterable[str]) -> list[str]:
    """Return *ids* sorted, with numbers in them compared as numbers."""
    return sorted(ids, key=lambda id: [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", id)])


class Selection(Struct, frozen=True):
    """Candidates for *count* devices.

    :ivar fixed: devices that are part of each selection.
    :ivar pool: devices among which the provider may have a preference.
    :ivar order: remaining devices, best first.
    """

    count: int
    fixed: Sequence[str]
    pool: frozenset[str]
    order: Sequence[str]

    def pick(self, preferred: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the selected devices; fewer than *count* if there are not enough."""
        chosen = dict.fromkeys(self.fixed)
        for id in itertools.chain((id for id in preferred if id in self.pool), self.order):
            if len(chosen) >= self.count:
                break
            chosen[id] = None
        return tuple(itertools.islice(chosen, self.count))


def candidates(
    free: Collection[str],
    required: Collection[str],
    count: int,
    nodes: Nodes,
    mask: Collection[int] | None,
    ranks: Mapping[str, int],
) -> Selection:
    """Return the candidates for an allocation.

    :param free: healthy devices that no container has.
    :param required: devices to select in any case, such as those of earlier init containers.
    :param mask: NUMA nodes to prefer; ``None`` for any.
    :param ranks: positions of the listed devices in their order.
    """

    def ordered(ids: Iterable[str]) -> list[str]:
        return sorted(ids, key=ranks.__getitem__)

    fixed = in_order(required)[:count]
    needed = count - len(fixed)
    available = set(free) - set(fixed)
    if mask is None or not any(nodes.get(id) for id in available):
        return Selection(count, fixed, frozenset(available), ordered(available))
    desired = set(mask)
    aligned = {id for id in available if desired & set(nodes.get(id) or ())}
    plain = {id for id in available if not nodes.get(id)}
    if needed < len(aligned):
        return Selection(count, fixed, frozenset(aligned), ordered(aligned))
    unaligned = available - aligned - plain
    return Selection(
        count,
        [*fixed, *ordered(aligned)],
        frozenset(available - aligned),
        [*ordered(unaligned), *ordered(plain)],
    )


def device_hints(nodes: Nodes, free: Collection[str], reusable: Collection[str], count: int) -> list[Hint] | None:
    """Return the sets of NUMA nodes with enough devices; ``None`` if no device has NUMA nodes.

    :param nodes: NUMA nodes of all devices of the resource.
    :param free: devices that can be allocated.
    :param reusable: devices that the container must select first; each set includes them.
    """
    if not any(nodes.values()):
        return None
    if len(set(free) | set(reusable)) < count:
        return []
    smallest = len({node for own in nodes.values() for node in own}) + 1
    fitting: list[frozenset[int]] = []
    for mask in _masks({node for own in nodes.values() for node in own}):
        if sum(1 for own in nodes.values() if mask & set(own)) >= count:
            smallest = min(smallest, len(mask))
        reused = [id for id in reusable if nodes.get(id)]
        if any(not mask & set(nodes[id]) for id in reused):
            continue
        inside = {id for id in (*free, *reusable) if mask & set(nodes.get(id) or ())}
        if len(inside) >= count:
            fitting.append(mask)
    return [Hint(mask, len(mask) == smallest) for mask in fitting]


def _masks(nodes: Iterable[int]) -> Iterable[frozenset[int]]:
    numbers = sorted(nodes)
    for size in range(1, len(numbers) + 1):
        yield from map(frozenset, itertools.combinations(numbers, size))
