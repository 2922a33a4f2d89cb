"""Tests for the validation of StorageVersions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.storage_versions import (
    storage_version_name_problems,
    validate_storage_version_status,
)

ENTRY: dict[str, Any] = {"apiServerID": "a", "encodingVersion": "apps/v1", "decodableVersions": ["apps/v1"]}
CONDITION = {"type": "T", "status": "True", "reason": "R", "message": "m"}


def fields(status: dict[str, Any]) -> list[str]:
    return [cause.field for cause in validate_storage_version_status(status)]


@pytest.mark.parametrize(("name", "valid"), [("core.pods", True), ("a.b.c", True), ("pods", False), ("A.pods", False)])
def test_name_has_a_group_and_a_resource(name: str, valid: bool) -> None:
    assert (not storage_version_name_problems(name)) is valid


def test_valid_status_has_no_errors() -> None:
    status = {"storageVersions": [ENTRY], "commonEncodingVersion": "apps/v1", "conditions": [CONDITION]}

    assert fields(status) == [] == fields({})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"apiServerID": "A"}, "apiServerID"),
        ({"encodingVersion": "v1/", "decodableVersions": ["v1/"]}, "encodingVersion"),
        ({"decodableVersions": ["apps/v1", "a/b/c"]}, "decodableVersions[1]"),
        ({"decodableVersions": ["v1"]}, "decodableVersions"),
        ({"servedVersions": ["apps/v2"]}, "servedVersions[0]"),
    ],
)
def test_entry_is_validated(change: dict[str, Any], field: str) -> None:
    entry = {**ENTRY, **change}

    found = fields({"storageVersions": [entry], "commonEncodingVersion": entry["encodingVersion"]})

    assert f"status.storageVersions[0].{field}" in found


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("/v1", "group part: must be non-empty"),
        ("A/v1", "group part: a lowercase RFC 1123 subdomain must consist of"),
        ("apps/", "version part: must be non-empty"),
        ("apps/V", "version part: a DNS-1035 label must consist of"),
        ("a/b/c", "an apiVersion is a DNS-1035 label"),
    ],
)
def test_parts_of_a_version_are_named_in_errors(version: str, problem: str) -> None:
    entry = {**ENTRY, "encodingVersion": version, "decodableVersions": [version]}

    causes = validate_storage_version_status({"storageVersions": [entry], "commonEncodingVersion": version})

    (message,) = [cause.message for cause in causes if cause.field.endswith("encodingVersion")]
    assert problem in message


@pytest.mark.parametrize(
    ("versions", "common", "text"),
    [
        (["apps/v1"], None, 'Invalid value: "null": the common encoding version is apps/v1'),
        (["apps/v1"], "v1", "the actual common encoding version is apps/v1"),
        (["apps/v1", "v1"], "v1", "should be nil if servers do not agree"),
        ([], "v1", "should be nil if servers do not agree"),
    ],
)
def test_common_version_is_that_of_all_servers(versions: list[str], common: str | None, text: str) -> None:
    entries = [{**ENTRY, "encodingVersion": item, "decodableVersions": [item]} for item in versions]

    (cause,) = validate_storage_version_status({"storageVersions": entries, "commonEncodingVersion": common})

    assert cause.field == "status.commonEncodingVersion"
    assert text in cause.message


def test_conditions_are_complete_and_distinct() -> None:
    found = fields({"conditions": [CONDITION, {"type": "T", "status": "True"}]})

    assert found == ["status[1].type", "status[1].reason", "status[1].message"]
