"""Tests for the decoding of bodies: duplicate fields are reported as requested by the client."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.media import JSON, PLAIN, YAML
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.verbs.body import read_object
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.kinds.test_custom_resources import established

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


WIDGET = '{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}}'


def custom(text: str, subresource: str = "") -> Any:
    """Return the object, or the code and the message of the error."""
    (resource,) = resources_of(established())
    info = RequestInfo("update", "/", "example.com", "v1", "widgets", subresource, "d", "w")
    request = Request("PUT", info, Query(""), {"Content-Type": JSON}, text.encode(), User("u"), PLAIN, Identity())
    try:
        return read_object(request, "Widget", "example.com/v1", resource.schema)
    except ApiError as error:
        return error.code, error.message


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("{}", 400, "(must be of type Widget): Object 'Kind' is missing in '{}' ({})"),
        (
            '{"kind": 5}',
            400,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct",
        ),
        (
            f'{{"a": "{"x" * 22}"}}',
            400,
            f"(must be of type Widget): Object 'Kind' is missing in '{{\"a\": \"{'x' * 22}\"}}'",
        ),
        (WIDGET.replace("v1", "v2"), 400, "the API version in the data (example.com/v2) does not match the expected"),
        (WIDGET.replace("example.com/v1", ""), 400, "the API version in the data () does not match the expected"),
        (WIDGET.replace("Widget", "Gadget"), 422, 'Gadget.example.com "w" is invalid: kind: Invalid value: "Gadget"'),
        ('{"kind": "Gadget", "apiVersion": "example.com/v1"}', 422, 'Gadget.example.com "" is invalid: kind'),
    ],
)
def test_custom_object_states_its_kind_and_version(text: str, code: int, message: str) -> None:
    found = custom(text)

    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize(("length", "ending"), [(30, "(%s)"), (31, "(%s ...)")])
def test_long_body_is_shortened_in_the_error(length: int, ending: str) -> None:
    text = '{"a": "' + "x" * (length - 9) + '"}'

    assert custom(text)[1].endswith(ending % text[:30])


def test_status_of_another_kind_keeps_the_stored_kind() -> None:
    assert custom(WIDGET.replace("Widget", "Gadget"), "status")["kind"] == "Widget"
    assert custom(WIDGET)["metadata"]["name"] == "w"


@pytest.mark.parametrize("custom", [True, False])
def test_order_of_unknown_and_duplicate_fields_depends_on_the_kind(custom: bool) -> None:
    kind, version = ("Widget", "example.com/v1") if custom else ("ConfigMap", "v1")
    schema = resources_of(established())[0].schema if custom else None
    body = f'{{"kind":"{kind}","apiVersion":"{version}","metadata":{{"name":"a"}},"other":1,"kind":"{kind}"}}'

    with pytest.raises(ApiError) as error:
        read_object(post(body.encode(), "fieldValidation=Strict", JSON), kind, version, schema)

    problems = ['duplicate field "kind"', 'unknown field "other"']
    assert f"strict decoding error: {', '.join(problems if custom else reversed(problems))}" in error.value.message


def test_duplicate_fields_of_a_kind_without_a_schema_are_reported() -> None:
    request = post(b'{"metadata":{"name":"a"},"x":1,"x":2}', content_type=JSON)

    assert read_object(request, "Widget", "example.com/v1")["x"] == 2
    assert request.warnings == ['duplicate field "x"']
