"""Tests for the defaults of definitions of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.custom_resource_definitions import set_status_defaults

VERSIONS = [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}]


@pytest.mark.parametrize(
    ("versions", "status", "expected"),
    [
        (VERSIONS, None, None),
        (VERSIONS, {}, {"storedVersions": ["v2"]}),
        (VERSIONS, {"storedVersions": []}, {"storedVersions": ["v2"]}),
        (VERSIONS, {"storedVersions": ["v1"]}, {"storedVersions": ["v1"]}),
        (VERSIONS[:1], {}, {}),
        (None, {}, {}),
    ],
)
def test_status_has_the_version_of_storage(versions: Any, status: Any, expected: Any) -> None:
    definition = {"spec": {"versions": versions}, **({} if status is None else {"status": status})}

    set_status_defaults(definition)

    assert definition.get("status") == expected
