"""Tests of the groups, encodings and sizes of Events on a running server."""

from __future__ import annotations

import gzip
import json
from typing import Any

from nodeagent.base import apiproto
from tests.integration.apiserver.conftest import Api
from tests.integration.apiserver.events_api.events import (
    APPLY,
    CORE,
    JSON_PATCH,
    MERGE,
    NEW,
    STRATEGIC,
    create,
    event,
    names,
)


def test_managed_fields_keep_the_field_names_of_their_version(api: Api, events: str) -> None:
    api.ok("POST", f"{events}?fieldManager=new", event())
    core = f"{events}/e".replace(NEW, CORE)

    patched = api.ok("PATCH", f"{core}?fieldManager=core", {"message": "other"}, content_type=MERGE)

    owners = {entry["manager"]: entry for entry in patched["metadata"]["managedFields"]}
    assert (owners["core"]["apiVersion"], owners["core"]["fieldsV1"]) == ("v1", {"f:message": {}})
    assert owners["new"]["apiVersion"] == "events.k8s.io/v1"
    assert "f:note" not in owners["new"]["fieldsV1"]
    assert "f:reason" in owners["new"]["fieldsV1"]


def test_event_is_served_in_every_encoding(api: Api, events: str) -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    body = apiproto.encode(event())
    api.raw("POST", events, body, content_type=protobuf)

    _, headers, data = api.raw("GET", f"{events}/e", headers={"Accept": protobuf})
    assert headers["content-type"] == protobuf
    assert apiproto.decode(data)["note"] == "assigned"
    assert apiproto.decode(data)["metadata"]["managedFields"]
    _, _, listed = api.raw("GET", events, headers={"Accept": protobuf})
    assert apiproto.decode(listed)["kind"] == "EventList"
    _, headers, text = api.raw("GET", f"{events}/e", headers={"Accept": "application/yaml"})
    assert headers["content-type"] == "application/yaml"
    assert b"note: assigned" in text


def test_long_responses_are_compressed_on_request(api: Api, namespace: str, events: str) -> None:
    older = {"metadata": {"name": "long"}, "involvedObject": {"namespace": namespace}, "message": "y" * (130 << 10)}
    accept = {"Accept-Encoding": "gzip"}
    create(api, events, "e")
    assert "content-encoding" not in api.raw("GET", events, headers=accept)[1]
    api.ok("POST", events.replace(NEW, CORE), older)

    _, headers, data = api.raw("GET", events, headers=accept)
    assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
    assert names(json.loads(gzip.decompress(data))) == ["e", "long"]
    assert "content-encoding" not in api.raw("GET", events)[1]


def test_responses_have_an_audit_id(api: Api, events: str) -> None:
    given = api.raw("GET", events, headers={"Audit-ID": "mine"})[1]["audit-id"]
    made = {api.raw("GET", path)[1]["audit-id"] for path in (events, f"{events}/nope", "/healthz")}

    assert given == "mine"
    assert len(made) == 3


def test_arbitrary_bodies_never_cause_an_internal_error(api: Api, events: str) -> None:
    created = create(api, events, "e")[0]
    deep: Any = {}
    for _ in range(450):
        deep = {"f:a": deep}
    entry = {"manager": "x", "operation": "Update", "apiVersion": "events.k8s.io/v1", "fieldsType": "FieldsV1"}
    strange: list[Any] = [deep, {"k:nonsense": {}}, {"k:[1]": {}}, {"x": {}}, {"f:a": 1}, {"v:{": {}}, []]
    for fields in strange:
        for method in ("PUT", "POST"):
            body = json.loads(json.dumps(created))
            body["metadata"]["managedFields"] = [{**entry, "fieldsV1": fields}]
            if method == "POST":
                body["metadata"] = {"name": "other", "managedFields": body["metadata"]["managedFields"]}
                api.call("DELETE", f"{events}/other")
            code, response = api.call(method, f"{events}/e" if method == "PUT" else events, body)
            assert code < 500, response
            applied = {**event(note="n", action="b", reason="c"), "metadata": {"name": "e"}}
            code, response = api.call("PATCH", f"{events}/e?fieldManager=y", applied, content_type=APPLY)
            assert code in (409, 422), response
    assert api.call("POST", events, event("deep", foo=deep))[0] in (201, 400)
    for depth in (500, 700, 950, 5000):
        nest = b'{"a":' * depth + b"{}" + b"}" * depth
        for content_type in (MERGE, STRATEGIC):
            assert api.call("PATCH", f"{events}/e", nest, content_type=content_type)[0] < 500
        operation = b'[{"op":"add","path":"/foo","value":%s}]' % nest
        assert api.call("PATCH", f"{events}/e", operation, content_type=JSON_PATCH)[0] < 500
    for body in ("[]", "", "kind: [", '{"apiVersion":[],"kind":{}}', "a: {b: 1", '{"metadata":5}'):
        code, response = api.call("PATCH", f"{events}/e?fieldManager=y", body.encode(), content_type=APPLY)
        assert code == 400, response
