"""Tests of the parameters of writes of Events on a running server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api
from tests.integration.apiserver.events_api.events import MERGE, create, event, row, verify_pretty


def _send(api: Api, verb: str, events: str, query: str, **members: Any) -> tuple[int, dict[str, str], Any]:
    """Create, replace or patch the event ``e`` with *query*; return status code, headers and object."""
    if verb == "create":
        sent = ("POST", events, event(**members), "application/json")
    elif verb == "replace":
        metadata = {"name": "e", "labels": {"new": "1"}}
        sent = ("PUT", f"{events}/e", event(**{"metadata": metadata, **members}), "application/json")
    else:
        sent = ("PATCH", f"{events}/e", {"metadata": {"labels": {"new": "1"}}, **members}, MERGE)
    method, path, body, content_type = sent
    code, headers, data = api.raw(method, f"{path}?{query}", body, content_type=content_type)
    return code, headers, json.loads(data)


WRITES = pytest.mark.parametrize("verb", ["create", "replace", "patch"])


@row("param.create.dryRun", "param.replace.dryRun", "param.patch.dryRun")
@WRITES
def test_dry_run_returns_the_object_and_stores_nothing(api: Api, events: str, verb: str) -> None:
    if verb != "create":
        create(api, events, "e")
    before = api.call("GET", f"{events}/e")

    code, _, shown = _send(api, verb, events, "dryRun=All")

    assert code == (201 if verb == "create" else 200)
    assert shown["metadata"]["uid"]
    assert ("resourceVersion" in shown["metadata"]) == (verb != "create")
    assert api.call("GET", f"{events}/e") == before
    kind = {"create": "CreateOptions", "replace": "UpdateOptions", "patch": "PatchOptions"}[verb]
    code, _, rejection = _send(api, verb, events, "dryRun=foo")
    assert (code, rejection["message"]) == (
        422,
        f'{kind}.meta.k8s.io "" is invalid: dryRun: Unsupported value: []string{{"foo"}}: supported values: "All"',
    )
    assert _send(api, verb, events, "dryRun=All", regarding={"kind": 5})[0] >= 400
    assert _send(api, verb, events, "")[0] < 300  # without the parameter the write is stored


@row("param.create.fieldManager", "param.replace.fieldManager", "param.patch.fieldManager")
@WRITES
def test_field_manager_owns_the_written_fields(api: Api, events: str, verb: str) -> None:
    if verb != "create":
        api.ok("POST", f"{events}?fieldManager=maker", event())

    members = {"metadata": {"name": "e", "labels": {"new": "1"}}}
    _, _, written = _send(api, verb, events, "fieldManager=me", **members)

    entry = next(entry for entry in written["metadata"]["managedFields"] if entry["manager"] == "me")
    assert (entry["operation"], entry["apiVersion"], entry["fieldsType"]) == (
        "Update",
        "events.k8s.io/v1",
        "FieldsV1",
    )
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {".": {}, "f:new": {}}}
    assert ("f:note" in entry["fieldsV1"]) == (verb == "create")
    code, _, rejection = _send(api, verb, events, f"fieldManager={'x' * 129}")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "fieldManager")
    code, _, rejection = _send(api, verb, events, "fieldManager=%01")
    assert (code, rejection["details"]["causes"][0]["message"]) == (
        422,
        'Invalid value: "\\x01": invalid character U+0001 (at position 0)',
    )


def test_default_field_manager_is_the_user_agent(api: Api, events: str) -> None:
    _, _, data = api.raw("POST", events, event(), headers={"User-Agent": "recorder/v1 (linux)"})

    assert json.loads(data)["metadata"]["managedFields"][0]["manager"] == "recorder"


@row("param.create.fieldValidation", "param.replace.fieldValidation", "param.patch.fieldValidation")
@WRITES
def test_field_validation_of_unknown_fields(api: Api, events: str, verb: str) -> None:
    create(api, events, "e") if verb != "create" else None

    code, _, rejection = _send(api, verb, events, "fieldValidation=Strict", foo=1)
    assert code == (422 if verb == "patch" else 400)
    assert 'strict decoding error: unknown field "foo"' in rejection["message"]
    code, _, rejection = _send(api, verb, events, "fieldValidation=Foo")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "fieldValidation")

    code, headers, written = _send(api, verb, events, "fieldValidation=Ignore", foo=1)
    assert code < 300
    assert "warning" not in headers
    assert "foo" not in written
    if verb == "create":
        api.ok("DELETE", f"{events}/e")
    for query in ("", "fieldValidation=Warn"):
        code, headers, written = _send(api, verb, events, query, foo={"bar": 1})
        assert (code < 300, headers["warning"]) == (True, '299 - "unknown field \\"foo\\""')
        assert "foo" not in api.ok("GET", f"{events}/e")
        if verb == "create":
            api.ok("DELETE", f"{events}/e")


@row("param.create.fieldValidation")
def test_field_validation_of_duplicate_fields(api: Api, events: str) -> None:
    body = json.dumps(event())[:-1].encode() + b', "note": "second", "regarding": {"namespace": "default"}}'

    code, rejection = api.call("POST", f"{events}?fieldValidation=Strict", body)
    assert code == 400
    assert 'duplicate field "note", duplicate field "regarding"' in rejection["message"]
    _, headers, data = api.raw("POST", events, body)
    assert 'duplicate field \\"note\\"' in headers["warning"]
    assert json.loads(data)["note"] == "second"


@row("param.create.pretty", "param.replace.pretty", "param.patch.pretty")
def test_writeverify_pretty(api: Api, events: str) -> None:
    verify_pretty(api, "POST", events, event(metadata={"generateName": "e-"}))
    create(api, events, "e")
    verify_pretty(api, "PUT", f"{events}/e", event())
    verify_pretty(api, "PATCH", f"{events}/e", {}, MERGE)
