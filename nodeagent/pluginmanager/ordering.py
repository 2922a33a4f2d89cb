"""Order of plugins relative to others by name: ``nodeagent_before`` and ``nodeagent_after`` of a plugin. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Ordering(NamedTuple):
    """Plugins before and after which a plugin is called."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def ordering_of(plugin: object) -> Ordering:
    """Return the ordering that a plugin module or object declares.

    :raises ValueError: an attribute is not a sequence of names.
    """
    found = []
    for attribute in ("nodeagent_before", "nodeagent_after"):
        names = getattr(plugin, attribute, ())
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{attribute} must be a tuple of plugin names, not {names!r:.80}")
        found.append(tuple(names))
    return Ordering(*found)


def predecessors(orderings: Mapping[str, Ordering]) -> dict[str, set[str]]:
    """Return the plugins that are called before each plugin by the declared order."""
    result: dict[str, set[str]] = {}
    for name, ordering in orderings.items():
        result.setdefault(name, set()).update(ordering.after)
        for other in ordering.before:
            result.setdefault(other, set()).add(name)
    return {name: earlier for name, earlier in result.items() if earlier}


def find_cycle(earlier: Mapping[str, set[str]], start: str) -> list[str]:
    """Return the plugins of a cycle through *start*, each after the next one; empty if there is none."""
    pending = [[start]]
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        for name in sorted(earlier.get(path[-1], ())):
            if name == start:
                return [*path, start]
            if name not in seen:
                seen.add(name)
                pending.append([*path, name])
    return []


def arrange(items: Sequence[T], plugin_of: Callable[[T], str], earlier: Mapping[str, set[str]]) -> list[T]:
    """Return *items* in an order that *earlier* permits, otherwise unchanged."""
    if not earlier or len(items) < 2:
        return list(items)
    left, arranged = list(items), []
    while left:
        waiting = {plugin_of(item) for item in left}
        item = next((each for each in left if not earlier.get(plugin_of(each), set()) & waiting), left[0])
        left.remove(item)
        arranged.append(item)
    return arranged
