"""Tests for the decoding of bodies: duplicate fields are reported as requested by the client."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.media import JSON, PLAIN, YAML
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.verbs.body import read_object
from nodeagent.base.identity import Identity

TWICE = b"metadata: {name: m}\ndata:\n  a: one\n  a: two\nfoo: 1\n"
REPORTED = 'line 4: key "a" already set in map'


def post(body: bytes, query: str = "", content_type: str = YAML) -> Request:
    info = RequestInfo("create", "/api/v1/namespaces/d/configmaps", "", "v1", "configmaps", namespace="d")
    return Request("POST", info, Query(query), {"Content-Type": content_type}, body, User("u"), PLAIN, Identity())


@pytest.mark.parametrize(
    ("query", "warnings"),
    [
        ("", [REPORTED, 'unknown field "foo"']),
        ("fieldValidation=Warn", [REPORTED, 'unknown field "foo"']),
        ("fieldValidation=Ignore", []),
    ],
)
def test_last_value_of_a_duplicate_yaml_key_is_used(query: str, warnings: list[str]) -> None:
    request = post(TWICE, query)

    assert read_object(request, "ConfigMap", "v1")["data"] == {"a": "two"}

    assert request.warnings == warnings


def test_duplicate_key_is_rejected_with_strict_validation() -> None:
    with pytest.raises(ApiError) as error:
        read_object(post(TWICE, "fieldValidation=Strict"), "ConfigMap", "v1")

    assert error.value.code == 400
    assert error.value.message.endswith(
        f'strict decoding error: yaml: unmarshal errors:\n  {REPORTED}, unknown field "foo"'
    )


def test_duplicate_json_key_is_reported_with_its_path() -> None:
    request = post(b'{"data":{"a":"one","a":"two"}}', content_type=JSON)

    assert read_object(request, "ConfigMap", "v1")["data"] == {"a": "two"}

    assert request.warnings == ['duplicate field "data.a"']


def test_duplicate_json_objects_are_merged() -> None:
    request = post(b'{"metadata":{"name":"m","labels":{"a":"1"}},"metadata":{"name":"n"}}', content_type=JSON)

    metadata = read_object(request, "ConfigMap", "v1")["metadata"]

    assert (metadata["name"], metadata["labels"]) == ("n", {"a": "1"})
    assert request.warnings == ['duplicate field "metadata"']


def test_fields_below_an_unknown_one_are_not_reported() -> None:
    request = post(b'{"odd":{"a":1,"a":2}}', content_type=JSON)

    read_object(request, "ConfigMap", "v1")

    assert request.warnings == ['unknown field "odd"']


@pytest.mark.parametrize(
    ("body", "data"),
    [(b"data: {a: '1'}\n---\ndata: {a: '2'}\n--- [", {"a": "1"}), (b"", None), (b"---\n---\ndata: {}\n", None)],
)
def test_only_the_first_yaml_document_is_read(body: bytes, data: object) -> None:
    assert read_object(post(body), "ConfigMap", "v1").get("data") == data


@pytest.mark.parametrize(
    ("kind", "version", "problem"),
    [
        ("ConfigMap", "v2", 'no kind "ConfigMap" is registered for version "v2"'),
        ("Secret", "v1", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
    ],
)
def test_body_of_another_type_is_rejected(kind: str, version: str, problem: str) -> None:
    with pytest.raises(ApiError) as rejected:
        read_object(post(f'{{"kind": "{kind}", "apiVersion": "{version}"}}'.encode()), "ConfigMap", "v1")

    assert rejected.value.code == 400
    assert problem in str(rejected.value)
