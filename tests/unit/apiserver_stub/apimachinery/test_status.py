"""Tests for error statuses and their upstream texts."""

from __future__ import annotations

from apiserver_stub.apimachinery import status
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.verbs.responses import render_error


def test_not_found_names_resource_and_group() -> None:
    body = status.not_found("coordination.k8s.io", "leases", "l1").body()

    assert body["message"] == 'leases.coordination.k8s.io "l1" not found'
    assert body["details"] == {"name": "l1", "group": "coordination.k8s.io", "kind": "leases"}
    assert (body["status"], body["reason"], body["code"]) == ("Failure", "NotFound", 404)


def test_several_causes_are_listed_in_brackets() -> None:
    one = status.required("spec.a")
    two = status.invalid_value("spec.b", "x", "must be y")

    alone = status.invalid("", "Pod", "p", [one]).body()
    both = status.invalid("apps", "Thing", "t", [one, two, one]).body()

    assert alone["message"] == 'Pod "p" is invalid: spec.a: Required value'
    assert both["message"] == (
        'Thing.apps "t" is invalid: [spec.a: Required value, spec.b: Invalid value: "x": must be y]'
    )
    assert len(both["details"]["causes"]) == 3
    assert both["details"]["causes"][1] == {
        "reason": "FieldValueInvalid",
        "message": 'Invalid value: "x": must be y',
        "field": "spec.b",
    }


def test_values_are_quoted_by_type() -> None:
    assert [status.quote(value) for value in ('a"b', 3, True, None)] == ['"a\\"b"', "3", "true", '"null"']


def test_success_has_no_code() -> None:
    assert "code" not in status.success({"name": "x"})
    assert status.done(201)["code"] == 201


def test_retry_seconds_are_also_sent_as_header() -> None:
    collision = status.already_exists("", "pods", "web-x7k2p")
    headers_before = render_error(collision, PLAIN).headers
    collision.details = {**(collision.details or {}), "retryAfterSeconds": 1}

    assert "Retry-After" not in headers_before
    assert render_error(collision, PLAIN).headers["Retry-After"] == "1"


def test_control_characters_are_escaped_as_in_go() -> None:
    assert status.quote("a\n\x01é\u200b") == '"a\\n\\x01é\\u200b"'
    assert status.quote({"a": ["b"]}) == '{"a":["b"]}'
