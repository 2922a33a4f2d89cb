"""Tests for the validation of object metadata: names, owners, finalizers, changes, and how often causes repeat."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from apiserver_stub.validation.metadata import (
    STATUS_RULES,
    MetadataRules,
    validate_metadata,
    validate_metadata_update,
)
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import label_problems

_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"}


def _fields(causes: list[Any]) -> list[str]:
    return [cause.field for cause in causes]


@pytest.mark.parametrize("generate", ["web-", "web", "w--", "--"])
def test_prefix_of_valid_names_is_valid(generate: str) -> None:
    assert validate_metadata({"generateName": generate, "name": "web-x7k2p"}) == []


@pytest.mark.parametrize("generate", ["web.", "-", ".", "Web-"])
def test_prefix_of_invalid_names_is_invalid(generate: str) -> None:
    assert _fields(validate_metadata({"generateName": generate, "name": "x"})) == ["metadata.generateName"]


def test_path_segment_may_start_with_dots() -> None:
    assert validate_metadata({"generateName": "..", "name": "..x7k2p"}, path_problems) == []
    assert _fields(validate_metadata({"name": ".."}, path_problems)) == ["metadata.name"]


def test_label_with_dots_has_a_separate_error() -> None:
    assert label_problems("a.b") == ["must not contain dots"]
    assert "RFC 1123 label" in label_problems("a_b")[0]


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [
        ({"generation": -1}, ["generation"]),
        ({"labels": {"-a": "b"}}, ["labels"]),
        ({"annotations": {"a/b/c": ""}}, ["annotations"]),
        ({"finalizers": ["example.com/a"]}, []),
        ({"finalizers": ["kubernetes"]}, []),
        ({"finalizers": ["abc"]}, ["finalizers[0]"]),
        ({"finalizers": [""]}, ["finalizers", "finalizers", "finalizers[0]"]),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, ["finalizers"]),
        ({"ownerReferences": [_OWNER]}, []),
        ({"ownerReferences": [{}]}, [f"ownerReferences.{name}" for name in ("apiVersion", "kind", "name", "uid")]),
        ({"ownerReferences": [_OWNER | {"apiVersion": "a/b/c"}]}, ["ownerReferences.apiVersion"]),
        ({"ownerReferences": [_OWNER | {"apiVersion": "apps/"}]}, ["ownerReferences.apiVersion"]),
        ({"ownerReferences": [_OWNER | {"kind": "Event"}]}, ["ownerReferences"]),
        ({"ownerReferences": [_OWNER | {"apiVersion": "events.k8s.io/v1", "kind": "Event"}]}, []),
        ({"ownerReferences": [_OWNER | {"controller": True}, _OWNER | {"controller": True}]}, ["ownerReferences"]),
        ({"managedFields": [{"manager": "a" * 129}]}, ["managedFields[0].manager"]),
        ({"managedFields": [{"manager": "a\n"}]}, ["managedFields[0].manager"]),
        ({"managedFields": [{"subresource": "a" * 257}]}, ["managedFields[0].subresource"]),
    ],
)
def test_errors_of_metadata_are_reported(metadata: dict[str, Any], fields: list[str]) -> None:
    assert _fields(validate_metadata({"name": "x", **metadata})) == [f"metadata.{field}" for field in fields]


@pytest.mark.parametrize(
    ("rules", "counts"),
    [
        (MetadataRules(), {"labels": 4, "deletionGracePeriodSeconds": 2, "finalizers": 2, "finalizers[0]": 2}),
        (STATUS_RULES, {"labels": 3, "deletionGracePeriodSeconds": 2, "finalizers": 1, "finalizers[0]": 1}),
        (
            MetadataRules(whole=2, changes=0, standard_finalizers=False),
            {"labels": 4, "deletionGracePeriodSeconds": 1, "finalizers": 3},
        ),
    ],
)
def test_cause_repeats_per_rule_that_reports_it(rules: MetadataRules, counts: dict[str, int]) -> None:
    new = {"name": "x", "labels": {"-a": ""}, "finalizers": ["-a"], "deletionGracePeriodSeconds": 3}

    found = validate_metadata_update(new, {"name": "x"}, rules=rules)

    assert Counter(_fields(found)) == {f"metadata.{field}": number for field, number in counts.items()}


def test_object_that_is_deleted_gets_no_new_finalizers() -> None:
    old = {"name": "x", "deletionTimestamp": "2024-01-02T03:04:05Z", "finalizers": ["a/b"]}
    new = old | {"finalizers": ["a/c", "a/b"]}

    found = validate_metadata_update(new, old, rules=MetadataRules(changes=0))

    assert [(cause.reason, cause.message) for cause in found] == [
        (
            "FieldValueForbidden",
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            '[]string{"a/c"}',
        )
    ]


def test_deletion_timestamp_of_an_update_is_shown_as_time() -> None:
    new = {"name": "x", "deletionTimestamp": "2024-01-02T03:04:05Z"}

    found = validate_metadata_update(new, {"name": "x"}, rules=MetadataRules(changes=0))

    assert [cause.message for cause in found] == ["Invalid value: 2024-01-02 03:04:05 +0000 UTC: field is immutable"]
