"""Tests for the default strategy of resources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import decode, encode_for_store
from apiserver_stub.kinds.registry import Column, Deprecation, Registry, Resource, Strategy, Subresource
from apiserver_stub.storage import Record
from apiserver_stub.storage.record import with_revision


class _Keeping(Strategy):
    status_keeps = ("labels", "ownerReferences")


def _object(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", **metadata}, "spec": {"a": 1}, "status": {"b": 1}}


def test_status_update_changes_metadata_and_status_only() -> None:
    old, new = _object(labels={"a": "1"}), _object(labels={"a": "2"}, ownerReferences=[{"uid": "u"}])
    new["spec"], new["status"] = {"a": 2}, {"b": 2}
    expected = {**new, "spec": {"a": 1}}

    Strategy().prepare_update(new, old, "status")

    assert new == expected


def test_status_update_keeps_declared_metadata() -> None:
    old, new = _object(labels={"a": "1"}), _object(annotations={"a": "2"}, ownerReferences=[{"uid": "u"}])

    _Keeping().prepare_update(new, old, "status")

    assert new["metadata"] == {"name": "x", "labels": {"a": "1"}, "annotations": {"a": "2"}}


def test_deprecated_version_causes_a_warning() -> None:
    resource = Resource("example.com", "v1beta1", "Thing", "things", deprecation=Deprecation("1.29", "1.32"))

    assert resource.deprecation_warning == ("example.com/v1beta1 Thing is deprecated in v1.29+, unavailable in v1.32+")
    assert Resource("", "v1", "Thing", "things").deprecation_warning == ""


def test_rule_for_names_may_depend_on_the_object() -> None:
    def rule(name: str, obj: dict[str, Any]) -> list[str]:
        return [] if name == obj["spec"] else ["wrong"]

    resource = Resource("", "v1", "Thing", "things", object_name_problems=rule)

    assert resource.name_rule({"spec": "a"})("a") == []
    assert resource.name_rule({"spec": "b"})("a") == ["wrong"]


def test_names_of_a_resource_are_derived_from_its_kind_unless_stated() -> None:
    derived = Resource("example.com", "v1", "Widget", "widgets")
    stated = Resource("", "v1", "Widget", "widgets", singular="w", list_kind="Widgets", storage="x/y")

    assert (derived.singular, derived.list_kind, derived.storage) == ("widget", "WidgetList", "example.com/widgets")
    assert (derived.api_version, stated.api_version) == ("example.com/v1", "v1")
    assert (stated.singular, stated.list_kind, stated.storage) == ("w", "Widgets", "x/y")
    assert Resource("", "v1", "Widget", "widgets").storage == "core/widgets"


@pytest.mark.parametrize(
    ("group", "storage", "hashed", "expected"),
    [("g", "", "", "g/v1"), ("g", "", "v1beta1", "g/v1beta1"), ("", "", "", "v1"), ("g", "core/as", "", "v1")],
)
def test_objects_are_stored_in_the_hashed_version(group: str, storage: str, hashed: str, expected: str) -> None:
    resource = Resource(group, "v1", "A", "as", storage=storage, hashed_version=hashed)

    assert resource.encoding_version == expected


@pytest.mark.parametrize(("priority", "wide", "expected"), [(0, False, 0), (0, True, 1), (2, True, 2), (2, False, 2)])
def test_wide_columns_have_a_priority(priority: int, wide: bool, expected: int) -> None:
    assert Column("A", str, wide=wide, priority=priority).priority == expected


def test_record_of_another_version_is_converted() -> None:
    def convert(obj: dict[str, Any]) -> dict[str, Any]:
        converted.append(obj["apiVersion"])
        return {**obj, "apiVersion": "g/v2", "a": 1}

    converter: Any = object()
    converted: list[str] = []
    plain, versioned = Resource("g", "v2", "A", "as"), Resource("g", "v2", "A", "as", convert=convert)
    by_webhook = Resource("g", "v2", "A", "as", converter=converter)
    stored, current = (
        Record("a", 7, with_revision(encode_for_store({"kind": "A", "apiVersion": version, "metadata": {}}), 7))
        for version in ("g/v1", "g/v2")
    )

    assert [item.has_versions for item in (plain, versioned, by_webhook)] == [False, True, True]
    assert (plain.render(stored), versioned.render(current)) == (stored.data, current.data)
    assert versioned.read(current) == plain.read(current)
    assert converted == []
    assert decode(versioned.render(stored)) == versioned.read(stored) == versioned.read_stored(stored)
    assert by_webhook.read_stored(stored)["apiVersion"] == "g/v1"
    assert converted == ["g/v1"] * 3


@pytest.mark.parametrize(
    ("subresource", "columns", "expected"),
    [
        ("", (Column("A", str),), True),
        ("", (), False),
        ("status", (Column("A", str),), True),
        ("status", (), False),
        ("scale", (Column("A", str),), False),
        ("none", (Column("A", str),), False),
    ],
)
def test_tables_need_columns(subresource: str, columns: Any, *, expected: bool) -> None:
    resource = Resource(
        "g", "v1", "A", "as", columns=columns, subresources=(Subresource("status"), Subresource("scale"))
    )

    assert resource.has_table(subresource) is expected


def test_resources_of_a_group_version_are_sorted() -> None:
    found = [Resource(group, version, "A", plural) for group, version, plural in (
        ("g", "v1", "bs"), ("g", "v1", "as"), ("g", "v2", "as"), ("h", "v1", "as"),
    )]  # fmt: skip

    assert [(item.version, item.plural) for item in Registry(found).of("g", "v1")] == [("v1", "as"), ("v1", "bs")]


def test_changes_of_declared_fields_increment_the_generation() -> None:
    class Counted(Strategy):
        counted = ("spec", "template")

    old = _object()

    assert not Counted().is_counted(_object(labels={"a": "1"}), old)
    assert Counted().is_counted({**old, "spec": {"a": 2}}, old)
    assert Counted().is_counted({**old, "template": {}}, old)
    assert not Strategy().is_counted({**old, "spec": {"a": 2}}, old)


def test_schema_of_a_custom_kind_precedes_a_defined_one() -> None:
    schema: Any = object()

    assert Resource("", "v1", "Pod", "pods", schema=schema).schema_in("k8s.io") is schema
    assert Resource("", "v1", "Pod", "pods").schema_in("k8s.io") is not None
    assert Resource("", "v1", "Thing", "things").schema_in("k8s.io") is None
