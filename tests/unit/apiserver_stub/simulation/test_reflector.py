"""Tests for the simulated watch client: each event must be the next change that its selector covers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.reflector import COLOR, Reflector
from tests.unit.apiserver_stub.simulation.stored import Stored

MAPS = "core/configmaps"


class Harness:
    """Reflector of the namespace ``n``, and of objects with *color* only."""

    def __init__(self, color: str = "") -> None:
        self.store = Stored()
        history = self.store.invariants.history
        client: Any = None
        path = "/api/v1/namespaces/n/configmaps"
        self.reflector = Reflector(client, history, self.store.violations, path, MAPS, "n/", color)

    def put(self, name: str, color: str = "", namespace: str = "n") -> None:
        labels = {"labels": {COLOR: color}} if color else {}
        self.store.put(MAPS, f"{namespace}/{name}", {**labels, "resourceVersion": str(self.store.revision + 1)})

    def delete(self, name: str) -> None:
        previous = self.store._records.pop((MAPS, f"n/{name}"))
        obj = msgspec.json.decode(previous.data)
        obj["metadata"]["resourceVersion"] = str(self.store.revision + 1)
        self.store._publish("DELETED", MAPS, self.store._record(previous.key, obj), previous)

    def event(self, kind: str, name: str, color: str = "", revision: int | None = None, **fields: Any) -> None:
        key = f"n/{name}"
        metadata = {"name": name, "uid": key, "namespace": "n"} | ({"labels": {COLOR: color}} if color else {})
        metadata["resourceVersion"] = str(revision or self.store.revision)
        line = {"type": kind, "object": {"metadata": metadata, **fields}}
        self.reflector._receive(msgspec.json.encode(line) + b"\n")

    @property
    def violation(self) -> str:
        return self.store.violation


def test_changes_of_the_namespace_are_expected_in_order() -> None:
    harness = Harness()
    harness.put("a")
    harness.put("b", namespace="other")
    harness.event("ADDED", "a", revision=1)
    harness.put("c")
    harness.event("ADDED", "c")
    harness.delete("a")
    harness.event("DELETED", "a")

    assert (harness.violation, harness.reflector.copy) == ("", {"n/c": 3})


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("", "red", "ADDED"),
        ("blue", "red", "ADDED"),
        ("red", "red", "MODIFIED"),
        ("red", "blue", "DELETED"),
        ("blue", "green", None),
    ],
)
def test_event_of_a_selector_depends_on_the_state_before(before: str, after: str, kind: str | None) -> None:
    harness = Harness("red")
    harness.put("a", before)
    if before == "red":
        harness.event("ADDED", "a", "red")
    harness.put("a", after)
    if kind is not None:
        harness.event(kind, "a", before if kind == "DELETED" else after)
    harness.put("b", "red")
    harness.event("ADDED", "b", "red")

    assert harness.violation == ""


@pytest.mark.parametrize(("color", "expected"), [("red", True), ("blue", False)])
def test_deletion_is_expected_for_selected_objects(color: str, *, expected: bool) -> None:
    harness = Harness("red")
    harness.put("a", color)
    if color == "red":
        harness.event("ADDED", "a", color)
    harness.delete("a")
    harness.event("DELETED", "a", color)

    assert (harness.violation == "") is expected


def test_lost_repeated_and_changed_events_are_violations() -> None:
    for events, text in (
        ([("ADDED", "b", 2)], "ADDED n/b 2 instead of ADDED n/a 1"),
        ([("ADDED", "a", 1), ("ADDED", "b", 2), ("ADDED", "b", 2)], "unexpected ADDED n/b 2"),
        ([("MODIFIED", "a", 1)], "MODIFIED n/a 1 instead of ADDED n/a 1"),
        ([("BOOKMARK", "a", 1)], "bookmark 1 of /api/v1/namespaces/n/configmaps before the event 1"),
        ([("ADDED", "a", 1), ("BOOKMARK", "a", 2)], "before the event 2"),
    ):
        harness = Harness()
        harness.put("a")
        harness.put("b")
        for kind, name, revision in events:
            harness.event(kind, name, revision=revision)
        assert text in harness.violation, events
    harness = Harness()
    harness.put("a")
    harness.event("ADDED", "a", data={"k": "v"})
    assert "has other content" in harness.violation


def test_bookmark_after_all_changes_is_valid() -> None:
    harness = Harness()
    harness.put("a")
    harness.event("ADDED", "a", revision=1)
    harness.put("b", namespace="other")
    harness.event("BOOKMARK", "a", revision=2)

    assert harness.violation == ""


@pytest.mark.parametrize(("code", "text"), [(410, ""), (500, ""), (503, ""), (504, ""), (400, "ended with")])
def test_some_errors_may_end_a_watch(code: int, text: str) -> None:
    harness = Harness()

    harness.reflector._receive(msgspec.json.encode({"type": "ERROR", "object": {"code": code}}) + b"\n")

    assert text in harness.violation
    assert bool(harness.violation) is bool(text)


def test_copy_must_be_complete() -> None:
    for color, expected in (("", ""), ("red", ""), ("blue", "has not delivered the state of n/a")):
        harness = Harness("blue" if color == "blue" else "")
        harness.put("a", color)
        if color != "blue":
            harness.event("ADDED", "a", color)
        harness.reflector.verify_complete()
        assert expected in harness.violation, color
        assert bool(harness.violation) is bool(expected), color
