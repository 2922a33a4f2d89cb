"""Tests of the operations on Events on a running server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api, Server
from tests.integration.apiserver.events_api.events import (
    APPLY,
    JSON_PATCH,
    MERGE,
    NEW,
    STRATEGIC,
    create,
    event,
    names,
    row,
)


@row("op.create", "op.get")
def test_create_and_get(api: Api, events: str) -> None:
    code, created = api.call("POST", events, event())
    assert code == 201
    code, found = api.call("GET", f"{events}/e")
    assert (code, found) == (200, created)
    assert (found["kind"], found["apiVersion"]) == ("Event", "events.k8s.io/v1")
    code, missing = api.call("GET", f"{events}/nope")
    assert (code, missing["message"]) == (404, 'events.events.k8s.io "nope" not found')
    code, again = api.call("POST", events, event())
    assert (code, again["reason"]) == (409, "AlreadyExists")
    assert api.call("POST", f"{NEW}/namespaces/nope/events", event())[0] == 404
    assert api.call("POST", events, b"")[0] == 400
    assert api.call("POST", f"{NEW}/events", event())[0] == 405


@row("op.replace")
def test_replace_updates_or_creates(api: Api, events: str) -> None:
    code, created = api.call("PUT", f"{events}/e", event())
    assert code == 201
    created["metadata"]["labels"] = {"a": "b"}
    code, replaced = api.call("PUT", f"{events}/e", created)
    assert (code, replaced["metadata"]["labels"]) == (200, {"a": "b"})
    assert api.call("PUT", f"{events}/e", created)[1]["reason"] == "Conflict"
    code, same = api.call("PUT", f"{events}/e", replaced)
    assert (code, same["metadata"]["resourceVersion"]) == (200, replaced["metadata"]["resourceVersion"])
    assert api.call("PUT", f"{events}/e", event("other"))[0] == 400


@row("op.patch")
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (MERGE, {"metadata": {"labels": {"a": "1"}}}),
        (STRATEGIC, {"metadata": {"labels": {"a": "1"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]),
    ],
)
def test_patch_of_each_type(api: Api, events: str, content_type: str, body: Any) -> None:
    create(api, events, "e")

    code, patched = api.call("PATCH", f"{events}/e", body, content_type=content_type)

    assert (code, patched["metadata"]["labels"]) == (200, {"a": "1"})
    assert api.call("PATCH", f"{events}/nope", body, content_type=content_type)[0] == 404


@row("op.patch", "param.patch.fieldManager", "param.patch.force")
def test_apply_creates_owns_and_acquires_fields(api: Api, events: str) -> None:
    path = f"{events}/e?fieldManager=fm1"
    assert api.call("PATCH", f"{events}/e", event(), content_type=APPLY)[1]["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )
    code, made = api.call("PATCH", path, event(metadata={"name": "e", "labels": {"q": "1"}}), content_type=APPLY)
    assert code == 201
    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("fm1", "Apply", "events.k8s.io/v1")
    assert entry["fieldsV1"]["f:metadata"] == {"f:labels": {"f:q": {}}}
    assert entry["fieldsV1"]["f:note"] == {}

    code, same = api.call("PATCH", path, event(metadata={"name": "e", "labels": {"q": "1"}}), content_type=APPLY)
    assert (code, same["metadata"]["resourceVersion"]) == (200, made["metadata"]["resourceVersion"])

    other = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "labels": {"q": "2"}}}
    code, rejection = api.call("PATCH", f"{events}/e?fieldManager=fm2", other, content_type=APPLY)
    assert (code, rejection["reason"]) == (409, "Conflict")
    assert rejection["message"] == 'Apply failed with 1 conflict: conflict with "fm1": .metadata.labels.q'
    assert rejection["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "fm1"', "field": ".metadata.labels.q"}
    ]
    assert api.call("PATCH", f"{events}/e?fieldManager=fm2&force=false", other, content_type=APPLY)[0] == 409
    taken = api.ok("PATCH", f"{events}/e?fieldManager=fm2&force=true", other, content_type=APPLY)
    assert taken["metadata"]["labels"] == {"q": "2"}
    assert [entry["manager"] for entry in taken["metadata"]["managedFields"]] == ["fm1", "fm2"]

    left = api.ok("PATCH", f"{events}/e?fieldManager=fm2", {**other, "metadata": {"name": "e"}}, content_type=APPLY)
    assert "labels" not in left["metadata"]

    assert api.call("PATCH", path, {"metadata": {"name": "e"}}, content_type=APPLY)[0] == 400
    code, untyped = api.call("PATCH", path, event(foo=1), content_type=APPLY)
    assert code == 500
    assert ".foo: field not declared in schema" in untyped["message"]
    code, forced = api.call("PATCH", f"{events}/e?force=true", {}, content_type=MERGE)
    assert (code, forced["details"]["causes"][0]["field"]) == (422, "force")


@row("op.delete")
def test_delete(api: Api, events: str) -> None:
    uid = create(api, events, "e")[0]["metadata"]["uid"]

    code, status = api.call("DELETE", f"{events}/e")

    assert (code, status["kind"], status["status"]) == (200, "Status", "Success")
    assert status["details"] == {"name": "e", "group": "events.k8s.io", "kind": "events", "uid": uid}
    assert api.call("DELETE", f"{events}/e")[0] == 404
    create(api, events, "e")
    for precondition in ({"uid": uid}, {"resourceVersion": "1"}):
        code, rejection = api.call("DELETE", f"{events}/e", {"preconditions": precondition})
        assert (code, rejection["reason"]) == (409, "Conflict")


@row("op.delete-collection")
def test_delete_collection(api: Api, events: str) -> None:
    create(api, events, "a", "b")

    code, deleted = api.call("DELETE", events)

    assert (code, names(deleted)) == (200, ["a", "b"])
    assert api.ok("GET", events)["items"] == []
    assert api.call("DELETE", f"{NEW}/events")[0] == 405


@row(
    "op.list-or-watch-one-namespace", "EventList.apiVersion", "EventList.kind", "EventList.metadata", "EventList.items"
)
def test_list_one_namespace(api: Api, events: str) -> None:
    create(api, events, "b", "a")

    code, listed = api.call("GET", events)

    assert code == 200
    assert (listed["apiVersion"], listed["kind"]) == ("events.k8s.io/v1", "EventList")
    assert int(listed["metadata"]["resourceVersion"]) >= int(listed["items"][0]["metadata"]["resourceVersion"])
    assert names(listed) == ["a", "b"]
    assert "kind" not in listed["items"][0]
    assert api.ok("GET", f"{NEW}/namespaces/nope/events")["items"] == []


@row("op.list-or-watch-all-namespaces")
def test_list_and_watch_all_namespaces(api: Api, events: str, namespace: str) -> None:
    create(api, events, "e")
    api.ok("POST", f"{NEW}/namespaces/default/events", event("here"))

    listed = api.ok("GET", f"{NEW}/events")
    assert {(namespace, "e"), ("default", "here")} <= {
        (item["metadata"]["namespace"], item["metadata"]["name"]) for item in listed["items"]
    }
    with api.watch(f"{NEW}/events?watch=1&resourceVersion={listed['metadata']['resourceVersion']}") as watched:
        api.ok("DELETE", f"{NEW}/namespaces/default/events/here")
        change = next(watched)
    assert (change["type"], change["object"]["metadata"]["name"]) == ("DELETED", "here")


@row("error.401")
@pytest.mark.parametrize(
    ("method", "location"),
    [
        ("GET", "/e"),
        ("GET", ""),
        ("GET", "?watch=1"),
        ("POST", ""),
        ("PUT", "/e"),
        ("PATCH", "/e"),
        ("DELETE", "/e"),
        ("DELETE", ""),
    ],
)
def test_every_operation_requires_authentication(server: Server, method: str, location: str) -> None:
    unauthenticated = server.api("not-a-token")

    for path in (f"{NEW}/namespaces/default/events{location}", f"{NEW}/events{location if location != '/e' else ''}"):
        code, rejection = unauthenticated.call(method, path, event() if method in ("POST", "PUT", "PATCH") else None)
        assert (code, rejection["kind"], rejection["reason"]) == (401, "Status", "Unauthorized")
