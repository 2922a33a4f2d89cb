"""Tests for the entries of ``metadata.managedFields``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apiserver_stub.schema import managed_fields
from apiserver_stub.schema.field_sets import LEAF
from apiserver_stub.schema.managed_fields import APPLY, UPDATE, ManagedFieldsEntry


def entry(name: str, operation: str = UPDATE, time: str = "", version: str = "v1") -> ManagedFieldsEntry:
    return ManagedFieldsEntry(name, operation, version, "", time, {f"f:{name}": LEAF})


def test_oldest_of_many_updaters_are_merged() -> None:
    entries = [entry(f"m{number:02}", time=f"2026-11-21T00:00:{number:02}Z") for number in range(13)]

    found = managed_fields.capped([entry("applier", APPLY), *entries])

    assert [item.manager for item in found] == [
        "applier",
        "ancient-changes",
        *(f"m{number:02}" for number in range(4, 13)),
    ]
    assert sorted(found[1].fields) == ["f:m00", "f:m01", "f:m02", "f:m03"]
    assert found[1].time == "2026-11-21T00:00:03Z"


def test_merged_updaters_are_of_one_version() -> None:
    entries = [entry(f"m{number:02}", time=f"t{number:02}", version=f"v{number % 2}") for number in range(11)]

    found = managed_fields.capped(entries)

    assert len(found) == managed_fields.MAX_UPDATERS
    merged = next(item for item in found if item.manager == "ancient-changes")
    assert (sorted(merged.fields), merged.api_version) == (["f:m00", "f:m02"], "v0")


@pytest.mark.parametrize("entries", [[{"manager": "x"}], [{"operation": "Apply", "fieldsV1": {"x": {}}}], ["x"], [{}]])
def test_invalid_entries_are_ignored(entries: Any) -> None:
    assert managed_fields.read(entries) is None


def test_last_of_duplicate_entries_is_used() -> None:
    wire = managed_fields.write([entry("a", APPLY)]) + managed_fields.write(
        [replace(entry("a", APPLY, version="v2"), fields={"f:b": LEAF})]
    )

    found = managed_fields.read(wire)

    assert found is not None
    assert [(item.api_version, item.fields) for item in found] == [("v2", {"f:b": LEAF})]


def test_empty_entries_reset_the_managers() -> None:
    live = {"metadata": {"managedFields": managed_fields.write([entry("x")])}}

    resets: list[Any] = [[], [{}]]
    for reset in resets:
        assert managed_fields.current({"metadata": {"managedFields": reset}}, live, writable=True) == []
    for kept in ({}, {"managedFields": [{"manager": "invalid"}]}):
        found = managed_fields.current({"metadata": kept}, live, writable=True)
        assert [item.manager for item in found] == ["x"]


def test_only_times_differ_between_same_entries() -> None:
    first = managed_fields.write([entry("a", time="2026-11-21T00:00:00Z")])
    later = managed_fields.write([entry("a", time="2026-11-21T00:00:01Z")])

    assert managed_fields.same_but_times(first, later)
    assert not managed_fields.same_but_times(first, managed_fields.write([entry("b")]))
    assert not managed_fields.same_but_times(first, [])


def test_allowed_number_of_updaters_is_unchanged() -> None:
    entries = [entry(f"m{number:02}", time=f"t{9 - number}") for number in range(managed_fields.MAX_UPDATERS)]

    assert managed_fields.capped(entries) == entries
