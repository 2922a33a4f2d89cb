"""Tests for the ownership graph: the locations that are due after a change."""

from __future__ import annotations

from apiserver_stub.controllers.ownership_graph import Location, Node, OwnershipGraph


def at(name: str) -> Location:
    return "core/configmaps", f"n/{name}"


def grown(graph: OwnershipGraph, name: str, *owners: str, blocks: bool = True, **state: bool) -> list[str]:
    """Record an object with its name as UID, and return the names that are due."""
    found = graph.update(at(name), Node(name, dict.fromkeys(owners, blocks), **state))
    return sorted(key.partition("/")[2] for _, key in found)


def names(locations: list[Location]) -> list[str]:
    return sorted(key.partition("/")[2] for _, key in locations)


def test_object_is_due_when_its_owners_change_only() -> None:
    graph = OwnershipGraph()

    assert grown(graph, "child", "owner") == ["child"]
    assert grown(graph, "child", "owner") == []
    assert grown(graph, "child", "owner", "other") == ["child"]


def test_dependents_are_due_when_their_owner_is_deleted() -> None:
    graph = OwnershipGraph()
    grown(graph, "one", "owner")
    grown(graph, "two", "owner")

    assert names(graph.remove(at("owner"), "owner")) == ["one", "two"]


def test_foreground_deletion_is_due_with_its_dependents_once() -> None:
    graph = OwnershipGraph()
    grown(graph, "child", "owner")

    assert grown(graph, "owner", deleting_dependents=True) == ["child", "owner"]
    assert grown(graph, "owner", deleting_dependents=True) == []


def test_waiting_owner_is_due_when_a_dependent_no_longer_blocks() -> None:
    graph = OwnershipGraph()
    grown(graph, "one", "owner")
    grown(graph, "two", "owner")
    grown(graph, "owner", deleting_dependents=True)

    assert grown(graph, "one", "owner", blocks=False) == ["owner"]
    assert names(graph.blocking_dependents("owner")) == ["two"]
    assert names(graph.remove(at("two"), "two")) == ["owner"]
    assert graph.blocking_dependents("owner") == []


def test_orphaning_precedes_foreground_deletion() -> None:
    graph = OwnershipGraph()
    grown(graph, "child", "owner")

    assert grown(graph, "owner", orphaning=True, deleting_dependents=True) == ["owner"]
    assert grown(graph, "owner", deleting_dependents=True) == ["child", "owner"]


def test_object_without_owners_is_removed_from_the_graph() -> None:
    graph = OwnershipGraph()
    grown(graph, "child", "owner")
    grown(graph, "child")

    assert at("child") not in graph
    assert not graph.has_dependents("owner")


def test_replaced_object_releases_dependents_of_its_predecessor() -> None:
    graph = OwnershipGraph()
    grown(graph, "child", "owner")
    graph.update(at("owner"), Node("owner", {}, deleting_dependents=True))

    assert names(graph.update(at("owner"), Node("new", {}))) == ["child"]


def test_deadlock_requires_that_every_owner_waits() -> None:
    graph = OwnershipGraph()
    for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
        grown(graph, name, owner, deleting_dependents=name != "c")
    assert not graph.is_deadlocked("a")

    grown(graph, "c", "b", deleting_dependents=True)
    assert graph.is_deadlocked("a")

    grown(graph, "b", "a", blocks=False, deleting_dependents=True)
    assert not graph.is_deadlocked("a")


def test_deadlock_search_is_limited_in_size() -> None:
    graph = OwnershipGraph()
    for number in range(5000):
        grown(graph, f"o{number}", f"o{number + 1}", deleting_dependents=True)
    grown(graph, "o5000", "o0", deleting_dependents=True)

    assert not graph.is_deadlocked("o0")
