"""Tests for the validation of references to fields and resources (downward API)."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation import field_refs
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.identity import Identity


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"apiVersion": "v1", "fieldPath": "metadata.name"}, []),
        ({"apiVersion": "v1", "fieldPath": "metadata.labels['a.b/c']"}, []),
        ({"apiVersion": "v1", "fieldPath": "metadata.annotations['A']"}, []),
        ({"apiVersion": "v1", "fieldPath": "spec.host"}, []),
        ({"fieldPath": "metadata.name"}, ["Required f.apiVersion"]),
        ({"apiVersion": "v1"}, ["Required f.fieldPath"]),
        ({"apiVersion": "v2", "fieldPath": "metadata.name"}, ["Invalid f.fieldPath"]),
        ({"apiVersion": "v1", "fieldPath": "spec.containers"}, ["Invalid f.fieldPath"]),
        ({"apiVersion": "v1", "fieldPath": "metadata.name['a']"}, ["Invalid f.fieldPath"]),
        ({"apiVersion": "v1", "fieldPath": "metadata.labels"}, ["NotSupported f.fieldPath"]),
        ({"apiVersion": "v1", "fieldPath": "metadata.labels['a b']"}, ["Invalid f"]),
    ],
)
def test_references_of_variables(ref: dict[str, Any], expected: list[str]) -> None:
    causes = field_refs.validate_field_ref(ref, "f", field_refs.VARIABLE_FIELDS, PodOptions(Identity()))

    assert [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes] == expected


def test_host_addresses_need_their_feature() -> None:
    ref = {"apiVersion": "v1", "fieldPath": "status.hostIPs"}

    causes = field_refs.validate_field_ref(
        ref, "f", field_refs.VARIABLE_FIELDS, PodOptions(allow_host_ips=False, identity=Identity())
    )

    assert [(cause.reason, cause.field) for cause in causes] == [("FieldValueForbidden", "f")]


@pytest.mark.parametrize(
    ("ref", "expected"),
    [
        ({"containerName": "a", "resource": "limits.cpu", "divisor": "1m"}, []),
        ({"containerName": "a", "resource": "limits.hugepages-2Mi"}, []),
        ({"resource": "limits.cpu"}, ["Required f.containerName"]),
        ({"containerName": "a"}, ["Required f.resource"]),
        ({"containerName": "a", "resource": "cpu"}, ["NotSupported f.resource"]),
        ({"containerName": "a", "resource": "limits.cpu", "divisor": "2"}, ["Invalid f.divisor"]),
        ({"containerName": "a", "resource": "requests.memory", "divisor": "3"}, ["Invalid f.divisor"]),
    ],
)
def test_references_to_resources(ref: dict[str, Any], expected: list[str]) -> None:
    causes = field_refs.validate_resource_ref(ref, "f", needs_container=True)

    assert [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes] == expected
