"""Tests for the changes that watches of one node or object read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.storage import Change, Collection, Record
from apiserver_stub.verbs.watch_topics import reader_of
from nodeagent.base.selectors import parse_field_selector


def resource(schema: object = None) -> Any:
    fields = {"spec.nodeName": ("spec", "nodeName")}
    return SimpleNamespace(namespaced=True, fields=fields, schema=schema, key=lambda *parts: "/".join(parts))


def selection(fields: str = "", namespace: str = "", name: str | None = None) -> Any:
    return SimpleNamespace(fields=parse_field_selector(fields), namespace=namespace, name=name)


def read_keys(kind: Any, chosen: Any) -> list[str]:
    """Return the keys of the changes that a watch of *chosen* reads of three new objects."""
    objects = Collection("core/pods", floor=0)
    reader = reader_of(objects, kind, chosen, objects.end)
    assert reader.read(10) == []
    bodies = {"a/1": b'{"spec":{"nodeName":"n1"}}', "a/2": b'{"spec":{"nodeName":"n2"}}', "b/1": b'{"spec":{}}'}
    for revision, (key, data) in enumerate(bodies.items(), 1):
        objects.publish([Change("ADDED", Record(key, revision, data), None)])
    return [change.record.key for change in reader.read(10)]


@pytest.mark.parametrize(
    ("chosen", "keys"),
    [
        (selection("spec.nodeName=n1"), ["a/1"]),
        (selection(namespace="a", name="2"), ["a/2"]),
        (selection("spec.nodeName!=n1"), ["a/1", "a/2", "b/1"]),
        (selection("spec.nodeName="), ["a/1", "a/2", "b/1"]),
        (selection(name="1"), ["a/1", "a/2", "b/1"]),
    ],
)
def test_watch_reads_only_changes_that_it_may_select(chosen: Any, keys: list[str]) -> None:
    assert read_keys(resource(), chosen) == keys


def test_object_that_leaves_a_node_is_read() -> None:
    objects = Collection("core/pods", floor=0)
    reader = reader_of(objects, resource(), selection("spec.nodeName=n1"), objects.end)
    reader.read(10)
    before, after = Record("a/1", 1, b'{"nodeName":"n1"}'), Record("a/1", 2, b'{"nodeName":"n2"}')

    objects.publish([Change("ADDED", before, None), Change("MODIFIED", after, before)])

    assert [change.revision for change in reader.read(10)] == [1, 2]


def test_watch_of_a_custom_kind_reads_objects_whose_node_is_not_stored() -> None:
    assert read_keys(resource(schema=object()), selection("spec.nodeName=n1")) == ["a/1", "a/2", "b/1"]
