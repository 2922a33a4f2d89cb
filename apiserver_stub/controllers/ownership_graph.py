"""Graph of owners and dependents for the garbage collector. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import field

from nodeagent.base.structs import Struct

Location = tuple[str, str]
"""Collection and key of an object."""

_MAX_VISITS = 1000
"""Maximum number of owners that the search for a cycle visits; in longer cycles, deletions stay blocked."""


class Node(Struct, frozen=True):
    """An object that has owners, or whose deletion waits for its dependents."""

    uid: str
    owners: Mapping[str, bool] = field(default_factory=dict)
    """UIDs of the owners, and whether the object blocks their deletion."""
    orphaning: bool = False
    """Its deletion waits until its dependents are released."""
    deleting_dependents: bool = False
    """Its deletion waits until the dependents that block it are deleted."""

    def __bool__(self) -> bool:
        return bool(self.owners) or self.orphaning or self.deleting_dependents


class OwnershipGraph:
    """Nodes by location; objects without owners whose deletion does not wait for dependents are not included.

    Methods that change the graph return the locations that must be processed because of the change.
    """

    def __init__(self) -> None:
        self._nodes: dict[Location, Node] = {}
        self._dependents: dict[str, dict[Location, None]] = {}
        self._waiting: dict[str, Location] = {}

    def clear(self) -> None:
        """Remove every node."""
        self._nodes.clear()
        self._dependents.clear()
        self._waiting.clear()

    def __contains__(self, location: Location) -> bool:
        return location in self._nodes

    def node(self, location: Location) -> Node | None:
        return self._nodes.get(location)

    def dependents(self, uid: str) -> list[Location]:
        """Return the locations of the objects that name *uid* as an owner."""
        return list(self._dependents.get(uid, ()))

    def has_dependents(self, uid: str) -> bool:
        return uid in self._dependents

    def blocking_dependents(self, uid: str) -> list[Location]:
        """Return the locations of the dependents that block the deletion of *uid*."""
        return [location for location in self._dependents.get(uid, ()) if self._nodes[location].owners[uid]]

    def has_dependent_deleting_dependents(self, uid: str) -> bool:
        """Return whether the deletion of a dependent of *uid* waits for dependents too, which may be a cycle."""
        return any(self._nodes[location].deleting_dependents for location in self._dependents.get(uid, ()))

    def is_deadlocked(self, uid: str) -> bool:
        """Return whether *uid* blocks its own deletion through owners that all wait for their dependents."""
        visited: set[str] = set()
        pending = list(self._blocked_by(uid))
        while pending and len(visited) < _MAX_VISITS:
            owner = pending.pop()
            if owner == uid:
                return True
            if owner not in visited:
                visited.add(owner)
                pending.extend(self._blocked_by(owner))
        return False

    def update(self, location: Location, new: Node) -> list[Location]:
        """Record the current state of the object at *location*."""
        old = self._nodes.get(location)
        due: dict[Location, None] = {}
        if old is not None and old.uid != new.uid:
            due.update(dict.fromkeys(self.remove(location, old.uid)))
            old = None
        self._unlink(location, old)
        if new:
            self._nodes[location] = new
            for uid in new.owners:
                self._dependents.setdefault(uid, {})[location] = None
            if new.orphaning or new.deleting_dependents:
                self._waiting[new.uid] = location
        due.update(dict.fromkeys(self._unblocked(old, new)))
        if new.owners.keys() != (old.owners.keys() if old is not None else set()):
            due[location] = None
        due.update(dict.fromkeys(self._started(location, old, new)))
        return list(due)

    def remove(self, location: Location, uid: str) -> list[Location]:
        """Record that the object *uid* at *location* is deleted."""
        old = self._nodes.get(location)
        self._unlink(location, old)
        return [*self._unblocked(old, Node(uid)), *self.dependents(uid)]

    def _unlink(self, location: Location, node: Node | None) -> None:
        if node is None:
            return
        del self._nodes[location]
        self._waiting.pop(node.uid, None)
        for uid in node.owners:
            left = self._dependents[uid]
            del left[location]
            if not left:
                del self._dependents[uid]

    def _unblocked(self, old: Node | None, new: Node) -> Iterator[Location]:
        """Yield the waiting owners that the object blocked and no longer does."""
        for uid, blocks in old.owners.items() if old is not None else ():
            if blocks and not new.owners.get(uid) and uid in self._waiting:
                yield self._waiting[uid]

    def _started(self, location: Location, old: Node | None, new: Node) -> Iterator[Location]:
        """Yield the locations to process when a deletion that waits for dependents has started."""
        if new.orphaning:
            if old is None or not old.orphaning:
                yield location
        elif new.deleting_dependents and (old is None or old.orphaning or not old.deleting_dependents):
            yield from self.dependents(new.uid)
            yield location

    def _blocked_by(self, uid: str) -> Iterator[str]:
        """Yield the owners that wait for *uid*, if it waits for its dependents itself."""
        location = self._waiting.get(uid)
        node = self._nodes[location] if location is not None else None
        if node is None or not node.deleting_dependents:
            return
        for owner, blocks in node.owners.items():
            above = self._waiting.get(owner) if blocks else None
            if above is not None and self._nodes[above].deleting_dependents:
                yield owner
