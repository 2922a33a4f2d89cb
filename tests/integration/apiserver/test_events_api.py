"""Tests of the Events API specification on a running server: operations, parameters and fields, in its order."""

from __future__ import annotations

import base64
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from nodeagent.base import apiproto

from .conftest import Api, Server

NEW, CORE = "/apis/events.k8s.io/v1", "/api/v1"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
WHEN = "2026-11-21T01:02:03.123456Z"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Server that supports initial events of watches."""
    found = Server(tmp_path_factory.mktemp("events"), "--feature-gates=WatchList=true")
    yield found
    assert found.stop() == 0


@pytest.fixture
def events(namespace: str) -> str:
    """Path of the events of the namespace."""
    return f"{NEW}/namespaces/{namespace}/events"


def event(name: str = "e", **members: Any) -> dict[str, Any]:
    """Return a valid event; *members* replace fields, and ``None`` removes them."""
    whole = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": WHEN,
        "action": "Binding",
        "reason": "Scheduled",
        "reportingController": "example.com/scheduler",
        "reportingInstance": "scheduler-1",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
        **members,
    }
    return {key: value for key, value in whole.items() if value is not None}


def create(api: Api, events: str, *names: str, **members: Any) -> list[dict[str, Any]]:
    return [api.ok("POST", events, event(name, **members)) for name in names]


def names(listed: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in listed["items"]]


def causes(api: Api, events: str, body: dict[str, Any], method: str = "POST") -> list[tuple[str, str]]:
    """Return the causes of the rejection of *body*."""
    code, rejection = api.call(method, events, body)
    assert (code, rejection["reason"]) == (422, "Invalid"), rejection
    return [(cause["field"], cause["message"]) for cause in rejection["details"]["causes"]]


def row(*ids: str) -> Any:
    return pytest.mark.row(*(f"events.{id_}" for id_ in ids))


# Fields.


@pytest.mark.parametrize(
    ("member", "value", "core", "wrong"),
    [
        pytest.param("eventTime", WHEN, "eventTime", 5, marks=row("Event.eventTime")),
        pytest.param("action", "Pulling", "action", 5, marks=row("Event.action")),
        pytest.param("note", "näher", "message", 5, marks=row("Event.note")),
        pytest.param("reason", "Pulled", "reason", [], marks=row("Event.reason")),
        pytest.param(
            "regarding",
            {
                "kind": "Pod",
                "namespace": "default",
                "name": "p",
                "uid": "u",
                "apiVersion": "v1",
                "resourceVersion": "7",
                "fieldPath": "spec.containers{c}",
            },
            "involvedObject",
            "p",
            marks=row("Event.regarding"),
        ),
        pytest.param("related", {"kind": "Node", "name": "n"}, "related", "n", marks=row("Event.related")),
        pytest.param(
            "reportingController", "a.example/c", "reportingComponent", {}, marks=row("Event.reportingController")
        ),
        pytest.param("reportingInstance", "c-2", "reportingInstance", 1, marks=row("Event.reportingInstance")),
        pytest.param(
            "series", {"count": 2, "lastObservedTime": WHEN}, "series", {"count": "2"}, marks=row("Event.series")
        ),
        pytest.param("type", "Warning", "type", True, marks=row("Event.type")),
    ],
)
def test_field_is_stored_typed_and_served_in_both_groups(
    api: Api, events: str, member: str, value: Any, core: str, wrong: Any
) -> None:
    created = api.ok("POST", events, event(**{member: value}))

    assert created[member] == value
    assert api.ok("GET", f"{events}/e")[member] == value
    assert api.ok("GET", f"{events}/e".replace(NEW, CORE))[core] == value
    code, rejection = api.call("POST", events, event("other", **{member: wrong}))
    assert (code, rejection["reason"]) == (400, "BadRequest")
    assert 'Event in version "v1" cannot be handled as a Event: json: cannot unmarshal' in rejection["message"]


@pytest.mark.parametrize(
    ("member", "value", "core", "label"),
    [
        pytest.param("deprecatedCount", 3, "count", "count", marks=row("Event.deprecatedCount")),
        pytest.param(
            "deprecatedFirstTimestamp",
            "2026-11-21T00:00:01Z",
            "firstTimestamp",
            "firstTimestamp",
            marks=row("Event.deprecatedFirstTimestamp"),
        ),
        pytest.param(
            "deprecatedLastTimestamp",
            "2026-11-21T00:00:02Z",
            "lastTimestamp",
            "lastTimestamp",
            marks=row("Event.deprecatedLastTimestamp"),
        ),
        pytest.param(
            "deprecatedSource",
            {"component": "kubelet", "host": "n1"},
            "source",
            "source",
            marks=row("Event.deprecatedSource", "Event.deprecatedSource.component", "Event.deprecatedSource.host"),
        ),
    ],
)
def test_deprecated_fields_are_set_only_by_core_events(
    api: Api, namespace: str, events: str, member: str, value: Any, core: str, label: str
) -> None:
    older = {"metadata": {"name": "old"}, "involvedObject": {"namespace": namespace}, core: value}

    api.ok("POST", events.replace(NEW, CORE), older)

    assert api.ok("GET", f"{events}/old")[member] == value
    assert api.ok("GET", f"{events}/old".replace(NEW, CORE))[core] == value
    assert causes(api, events, event(**{member: value})) == [(label, 'Invalid value: "": needs to be unset')]


@row("Event.metadata")
def test_metadata_is_standard_object_metadata(api: Api, events: str, namespace: str) -> None:
    metadata = {"generateName": "made-", "labels": {"a": "b"}, "annotations": {"c": "d"}, "uid": "mine"}

    made = api.ok("POST", events, event(metadata=metadata))["metadata"]

    assert made["name"].startswith("made-")
    assert len(made["name"]) == len("made-") + 5
    assert (made["namespace"], made["labels"], made["annotations"]) == (namespace, {"a": "b"}, {"c": "d"})
    assert made["uid"] != "mine"
    assert made["creationTimestamp"].endswith("Z")
    assert int(made["resourceVersion"]) > 0
    assert [field for field, _ in causes(api, events, event(metadata={"name": "V_1"}))] == ["metadata.name"]
    assert causes(api, events, event(metadata={})) == [
        ("metadata.name", "Required value: name or generateName is required")
    ]
    wrong = {"name": "x", "labels": {"a b": "c"}, "finalizers": ["short"]}
    assert causes(api, events, event(metadata=wrong))[0][0] == "metadata.labels"


@row("Event.eventTime", "limit.eventTime-precision")
def test_event_time_is_required_with_microseconds(api: Api, events: str) -> None:
    assert ("eventTime", "Required value") in causes(api, events, event(eventTime=None))
    for text in ("2026-11-21T01:02:03Z", "2026-11-21T01:02:03.1Z", "2026-11-21T01:02:03.123456789Z", "now"):
        code, rejection = api.call("POST", events, event(eventTime=text))
        assert code == 400
        assert f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00"' in rejection["message"]
    moved = api.ok("POST", events, event(eventTime="2026-11-21T03:02:03.000001+02:00"))
    assert moved["eventTime"] == "2026-11-21T01:02:03.000001Z"


@pytest.mark.parametrize(
    ("member", "label"),
    [
        pytest.param("action", "action", marks=row("Event.action", "limit.action-length-new-Event")),
        pytest.param("reason", "reason", marks=row("Event.reason", "limit.reason-length-new-Event")),
        pytest.param(
            "reportingInstance",
            "reportingInstance",
            marks=row("Event.reportingInstance", "limit.reportingInstance-length-new-Event"),
        ),
    ],
)
def test_reason_of_a_new_event_has_at_most_128_characters(api: Api, events: str, member: str, label: str) -> None:
    for value in (None, ""):
        assert causes(api, events, event(**{member: value})) == [(label, "Required value")]
    too_long = 'Invalid value: "": can have at most 128 characters'
    assert causes(api, events, event(**{member: "x" * 129})) == [(label, too_long)]
    assert causes(api, events, event(**{member: "é" * 65})) == [(label, too_long)]
    assert api.ok("POST", events, event(**{member: "x" * 128}))[member] == "x" * 128


@row("Event.note", "limit.note-size")
def test_new_note_is_limited_to_1_kib_and_longer_ones_are_served(api: Api, namespace: str, events: str) -> None:
    too_long = [("message", 'Invalid value: "": can have at most 1024 characters')]
    assert causes(api, events, event(note="x" * 1025)) == too_long
    assert api.ok("POST", events, event(note="x" * 1024))["note"] == "x" * 1024
    assert "note" not in api.ok("POST", events, event("none", note=None))

    older = {"metadata": {"name": "old"}, "involvedObject": {"namespace": namespace}, "message": "y" * 65536}
    api.ok("POST", events.replace(NEW, CORE), older)
    assert len(api.ok("GET", f"{events}/old")["note"]) == 65536


@row("Event.reportingController")
def test_reporting_controller_must_be_a_qualified_name(api: Api, events: str) -> None:
    empty = causes(api, events, event(reportingController=None))
    assert [field for field, _ in empty] == ["reportingController"] * 3
    assert empty[0][1] == "Required value"
    for wrong in ("a/b/c", "UPPER.example/x", "x" * 64, "-x"):
        assert causes(api, events, event(reportingController=wrong))[0][0] == "reportingController"
    assert api.ok("POST", events, event(reportingController="scheduler"))["reportingController"] == "scheduler"


@row("Event.type")
def test_type_must_be_normal_or_warning(api: Api, events: str) -> None:
    for wrong in ("Other", ""):
        assert causes(api, events, event(type=wrong)) == [("type", f'Invalid value: "": has invalid value: {wrong}')]
    create(api, events, "w", type="Warning")


@row("Event.regarding")
def test_event_without_regarding_belongs_to_the_default_namespace(api: Api, events: str) -> None:
    text = 'Invalid value: "": does not match event.namespace'
    assert causes(api, events, event(regarding=None)) == [("involvedObject.namespace", text)]
    about = api.ok("POST", f"{NEW}/namespaces/default/events", event("nothing", regarding=None))
    assert about["regarding"] == {}
    api.ok("DELETE", f"{NEW}/namespaces/default/events/nothing")


@row("Event.series", "Event.series.count")
def test_series_count_is_at_least_two_and_mutable(api: Api, events: str) -> None:
    assert causes(api, events, event(series={"count": 1, "lastObservedTime": WHEN})) == [
        ("series.count", 'Invalid value: "": should be at least 2')
    ]
    assert causes(api, events, event(series={"lastObservedTime": WHEN}))[0][0] == "series.count"
    assert causes(api, events, event(series={"count": 2})) == [("series.lastObservedTime", "Required value")]
    assert "series" not in create(api, events, "e")[0]

    longer = {"count": 3, "lastObservedTime": "2026-11-21T01:02:09.000000Z"}
    patched = api.ok("PATCH", f"{events}/e", {"series": longer}, content_type=MERGE)
    assert patched["series"] == longer
    code, _ = api.call("PATCH", f"{events}/e", {"series": {"count": 1}}, content_type=MERGE)
    assert code == 422


@row("op.replace", "op.patch")
def test_fields_of_the_events_group_are_immutable(api: Api, events: str) -> None:
    created = create(api, events, "e")[0]
    changes = {"note": "other", "action": "b", "reason": "c", "type": "Warning", "reportingInstance": "d"}

    found = causes(api, f"{events}/e", {**created, **changes}, "PUT")

    assert {field for field, _ in found} == {"message", "action", "reason", "type", "reportingInstance"}
    assert all(message.endswith("field is immutable") for _, message in found)
    code, rejection = api.call("PATCH", f"{events}/e", {"note": "other"}, content_type=MERGE)
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "message")
    core = f"{events}/e".replace(NEW, CORE)
    assert api.ok("PATCH", core, {"message": "other"}, content_type=MERGE)["message"] == "other"


# Operations.


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


# Parameters of reads.


@row("param.get.pretty")
def test_get_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _pretty(api, "GET", f"{events}/e")


@row("param.list-or-watch.pretty")
def test_list_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _pretty(api, "GET", events)


def _pretty(api: Api, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
    """Check that responses are compact unless *pretty* or the user agent requests indentation."""
    forms = {}
    for query, agent in (("", ""), ("?pretty=true", ""), ("?pretty=false", "curl/8"), ("", "curl/8")):
        headers = {"User-Agent": agent} if agent else {}
        code, _, data = api.raw(method, path + query, body, content_type=content_type, headers=headers)
        assert code < 300, data
        forms[query, agent] = data
    assert forms["?pretty=true", ""].startswith(b'{\n  "kind"')
    assert forms["", "curl/8"].startswith(b'{\n  "kind"')
    assert forms["", ""].startswith(b'{"kind"')
    assert forms["?pretty=false", "curl/8"].startswith(b'{"kind"')


@row("param.list-or-watch.limit", "param.list-or-watch.continue")
def test_list_in_pages(api: Api, events: str) -> None:
    create(api, events, "a", "b", "c", "d")

    first = api.ok("GET", f"{events}?limit=2")
    create(api, events, "bb")
    second = api.ok("GET", f"{events}?limit=2&continue={first['metadata']['continue']}")

    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 2)
    assert names(second) == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in second["metadata"]
    assert api.call("GET", f"{events}?limit=many")[0] == 400
    assert api.call("GET", f"{events}?continue=nonsense")[0] == 400
    token = first["metadata"]["continue"]
    assert api.call("GET", f"{events}?continue={token}&resourceVersion=7")[0] == 400


@row("param.list-or-watch.continue")
def test_continue_token_survives_changes(server: Server, api: Api, events: str) -> None:
    create(api, events, "a", "b")
    token = _token(1, "a\0")

    code, gone = api.call("GET", f"{events}?limit=1&continue={token}")
    assert (code, gone["reason"]) == (410, "Expired")
    rest = api.ok("GET", f"{events}?limit=1&continue={gone['metadata']['continue']}")
    assert names(rest) == ["b"]


def _token(revision: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


@row("param.list-or-watch.fieldSelector")
def test_list_by_fields(api: Api, events: str) -> None:
    create(api, events, "a", reason="One", regarding={"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"})
    create(api, events, "b", reason="Two", type="Warning", reportingController="x.example/y")

    for selector, expected in {
        "metadata.name=a": ["a"],
        "metadata.name!=a": ["b"],
        "reason=Two": ["b"],
        "type=Normal": ["a"],
        "reportingController=x.example/y": ["b"],
        "regarding.kind=Pod,regarding.name=p,regarding.namespace=default": ["a", "b"],
        "regarding.uid=u": ["a"],
        "regarding.uid=": ["b"],
        "regarding.fieldPath=,reason==One": ["a"],
    }.items():
        assert names(api.ok("GET", f"{events}?fieldSelector={selector.replace('=', '%3D')}")) == expected, selector
    core = events.replace(NEW, CORE)
    assert names(api.ok("GET", f"{core}?fieldSelector=involvedObject.uid%3Du")) == ["a"]
    for unknown in ("involvedObject.name", "source", "note"):
        code, rejection = api.call("GET", f"{events}?fieldSelector={unknown}%3Dx")
        assert (code, rejection["message"]) == (400, f"field label not supported: {unknown}")
    assert api.call("GET", f"{events}?fieldSelector=foo")[0] == 400


@row("param.list-or-watch.labelSelector")
def test_list_by_labels(api: Api, events: str) -> None:
    create(api, events, "a", metadata={"name": "a", "labels": {"x": "1"}})
    create(api, events, "b", metadata={"name": "b", "labels": {"x": "2", "y": ""}})

    for selector, expected in {
        "x=1": ["a"],
        "x!=1": ["b"],
        "x in (1,2)": ["a", "b"],
        "x notin (2)": ["a"],
        "y": ["b"],
        "!y": ["a"],
        "x>1": ["b"],
    }.items():
        query = selector.replace(" ", "%20").replace("=", "%3D").replace(">", "%3E").replace("!", "%21")
        assert names(api.ok("GET", f"{events}?labelSelector={query}")) == expected, selector
    assert api.call("GET", f"{events}?labelSelector=-bad")[0] == 400


@row("param.list-or-watch.resourceVersion", "param.list-or-watch.resourceVersionMatch")
def test_list_at_a_revision(api: Api, events: str) -> None:
    then = create(api, events, "a")[0]["metadata"]["resourceVersion"]
    create(api, events, "b")

    def listed(query: str) -> list[str]:
        return names(api.ok("GET", f"{events}?{query}"))

    assert listed(f"resourceVersion={then}&resourceVersionMatch=Exact") == ["a"]
    assert listed(f"resourceVersion={then}&resourceVersionMatch=NotOlderThan") == ["a", "b"]
    assert listed(f"resourceVersion={then}") == ["a", "b"]
    assert listed(f"resourceVersion={then}&limit=5") == ["a"]
    assert listed("resourceVersion=0") == ["a", "b"]
    code, future = api.call("GET", f"{events}?resourceVersion=99999999")
    assert (code, future["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    assert api.call("GET", f"{events}?resourceVersion=abc")[0] == 400
    code, gone = api.call("GET", f"{events}?resourceVersion=1&resourceVersionMatch=Exact")
    assert (code, gone["reason"]) == (410, "Expired")
    for query in (
        "resourceVersionMatch=Exact",
        "resourceVersionMatch=Foo&resourceVersion=5",
        "resourceVersionMatch=Exact&resourceVersion=0",
    ):
        code, rejection = api.call("GET", f"{events}?{query}")
        assert (code, rejection["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")


@row(
    "op.list-or-watch-one-namespace",
    "param.list-or-watch.watch",
    "param.list-or-watch.resourceVersion",
    "param.list-or-watch.labelSelector",
    "param.list-or-watch.fieldSelector",
)
def test_watch(api: Api, events: str) -> None:
    start = create(api, events, "e", metadata={"name": "e", "labels": {"x": "1"}})[0]["metadata"]["resourceVersion"]
    selected = f"{events}?watch=true&labelSelector=x%3D1&fieldSelector=metadata.name%3De&resourceVersion={start}"
    elsewhere = f"{NEW}/namespaces/default/events"

    with api.watch(f"{events}?watch=1&resourceVersion={start}") as every, api.watch(selected) as some:
        api.ok("POST", elsewhere, event("e", metadata={"name": "e", "labels": {"x": "1"}}))  # not received by either
        api.ok("DELETE", f"{elsewhere}/e")
        create(api, events, "other", metadata={"name": "other", "labels": {"x": "1"}})
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"y": "1"}}}, content_type=MERGE)
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"x": "2"}}}, content_type=MERGE)
        api.ok("PATCH", f"{events}/e", {"metadata": {"labels": {"x": "1"}}}, content_type=MERGE)
        last = api.ok("DELETE", f"{events}/e")
        seen = [next(every) for _ in range(5)]
        chosen = [next(some) for _ in range(4)]

    assert last["status"] == "Success"
    assert [(item["type"], item["object"]["metadata"]["name"]) for item in seen] == [
        ("ADDED", "other"),
        ("MODIFIED", "e"),
        ("MODIFIED", "e"),
        ("MODIFIED", "e"),
        ("DELETED", "e"),
    ]
    assert [item["type"] for item in chosen] == ["MODIFIED", "DELETED", "ADDED", "DELETED"]
    assert chosen[1]["object"]["metadata"]["labels"]["x"] == "1"
    revisions = [int(item["object"]["metadata"]["resourceVersion"]) for item in seen]
    assert revisions == sorted(set(revisions))
    assert all(item["object"]["kind"] == "Event" for item in seen)
    assert api.ok("GET", f"{events}?watch=false")["kind"] == "EventList"


@row("param.list-or-watch.resourceVersion")
def test_watch_from_a_compacted_revision_is_gone(api: Api, events: str) -> None:
    with api.watch(f"{events}?watch=1&resourceVersion=1") as watched:
        (error,) = list(watched)
    assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")


@row("param.list-or-watch.timeoutSeconds")
def test_watch_ends_after_timeout_seconds(api: Api, events: str) -> None:
    with api.watch(f"{events}?watch=1&timeoutSeconds=1", seconds=60) as watched:  # fails without an event in this time
        assert list(watched) == []
    assert api.call("GET", f"{events}?watch=1&timeoutSeconds=soon")[0] == 400


@row("param.list-or-watch.timeoutSeconds")
def test_list_accepts_timeout_seconds(api: Api, events: str) -> None:
    assert api.ok("GET", f"{events}?timeoutSeconds=5")["items"] == []
    code, rejection = api.call("GET", f"{events}?timeoutSeconds=soon")
    assert (code, rejection["message"]) == (400, 'strconv.ParseInt: parsing "soon": invalid syntax')


@row(
    "param.list-or-watch.sendInitialEvents",
    "param.list-or-watch.allowWatchBookmarks",
    "param.list-or-watch.resourceVersionMatch",
)
def test_watch_can_send_initial_events(api: Api, events: str) -> None:
    create(api, events, "a", "b")
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"

    with api.watch(f"{events}?{query}&allowWatchBookmarks=true") as watched:
        marked = [next(watched) for _ in range(3)]
    with api.watch(f"{events}?{query}") as watched:
        unmarked = list(watched)
    with api.watch(f"{events}?{query.replace('=true', '=false')}&allowWatchBookmarks=true") as watched:
        assert [item["type"] for item in watched if item["type"] == "ADDED"] == []

    assert [item["type"] for item in marked] == ["ADDED", "ADDED", "BOOKMARK"]
    assert marked[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert [item["type"] for item in unmarked] == ["ADDED", "ADDED"]
    code, rejection = api.call("GET", f"{events}?watch=1&sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "resourceVersionMatch")
    code, rejection = api.call("GET", f"{events}?sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["message"]) == (
        422,
        "Forbidden: sendInitialEvents is forbidden for list",
    )
    assert api.call("GET", f"{events}?watch=1&resourceVersionMatch=Exact")[0] == 422


@row("param.list-or-watch.allowWatchBookmarks")
def test_bookmark_precedes_the_end_of_a_watch_after_changes(api: Api, namespace: str, events: str) -> None:
    start = api.ok("GET", events)["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={start}&timeoutSeconds=3"

    with (
        api.watch(f"{events}?{query}&allowWatchBookmarks=true", seconds=60) as marked,
        api.watch(f"{events}?{query}", seconds=60) as unmarked,
    ):
        api.ok("POST", f"/api/v1/namespaces/{namespace}/secrets", {"metadata": {"name": "elsewhere"}})
        *_, bookmark = list(marked)
        assert list(unmarked) == []

    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(start)


# Parameters of writes.


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
def test_write_pretty(api: Api, events: str) -> None:
    _pretty(api, "POST", events, event(metadata={"generateName": "e-"}))
    create(api, events, "e")
    _pretty(api, "PUT", f"{events}/e", event())
    _pretty(api, "PATCH", f"{events}/e", {}, MERGE)


# Parameters of deletions.


@row("param.delete.dryRun")
def test_dry_run_deletes_nothing(api: Api, events: str) -> None:
    create(api, events, "e")

    assert api.ok("DELETE", f"{events}/e?dryRun=All")["status"] == "Success"
    assert api.ok("DELETE", f"{events}/e", {"dryRun": ["All"]})["status"] == "Success"
    api.ok("GET", f"{events}/e")
    code, rejection = api.call("DELETE", f"{events}/e?dryRun=no")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "dryRun")
    api.ok("DELETE", f"{events}/e?dryRun=All", {"gracePeriodSeconds": 0})  # a body overrides the query
    assert api.call("GET", f"{events}/e")[0] == 404


@row("param.delete.gracePeriodSeconds")
def test_grace_period_is_a_number_without_effect_on_events(api: Api, events: str) -> None:
    create(api, events, "e", "f")

    assert api.call("DELETE", f"{events}/e?gracePeriodSeconds=soon")[0] == 400
    api.ok("GET", f"{events}/e")
    api.ok("DELETE", f"{events}/e?gracePeriodSeconds=30")
    api.ok("DELETE", f"{events}/f?gracePeriodSeconds=-1")
    assert api.ok("GET", events)["items"] == []


@row("param.delete.propagationPolicy")
def test_propagation_policy_is_validated(api: Api, events: str) -> None:
    for policy in ("Foreground", "Background", "Orphan"):
        create(api, events, "e")
        assert api.ok("DELETE", f"{events}/e?propagationPolicy={policy}")["status"] == "Success"
        assert api.call("GET", f"{events}/e")[0] == 404
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}/e?propagationPolicy=Foo")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "propagationPolicy")
    api.ok("GET", f"{events}/e")


@row("param.delete.pretty")
def test_delete_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _, _, data = api.raw("DELETE", f"{events}/e?pretty=1&dryRun=All")
    assert data.startswith(b'{\n  "kind": "Status"')
    _, _, data = api.raw("DELETE", f"{events}/e")
    assert data.startswith(b'{"kind":"Status"')


@row("param.delete-collection.pretty")
def test_delete_collection_pretty(api: Api, events: str) -> None:
    create(api, events, "e")
    _, _, data = api.raw("DELETE", f"{events}?pretty=1&dryRun=All")
    assert data.startswith(b'{\n  "kind": "EventList"')
    _, _, data = api.raw("DELETE", events)
    assert data.startswith(b'{"kind":"EventList"')


@row("param.delete-collection.dryRun")
def test_dry_run_of_a_collection_returns_the_selected_events(api: Api, events: str) -> None:
    create(api, events, "a", "b")

    assert names(api.ok("DELETE", f"{events}?dryRun=All")) == ["a", "b"]
    assert names(api.ok("GET", events)) == ["a", "b"]
    assert api.call("DELETE", f"{events}?dryRun=no")[0] == 422


@row("param.delete-collection.fieldSelector", "param.delete-collection.labelSelector")
def test_only_selected_events_are_deleted(api: Api, events: str) -> None:
    for name in ("a", "b", "c"):
        create(api, events, name, metadata={"name": name, "labels": {"x": name}})

    assert names(api.ok("DELETE", f"{events}?labelSelector=x%3Da")) == ["a"]
    assert names(api.ok("DELETE", f"{events}?fieldSelector=metadata.name%3Db")) == ["b"]
    assert names(api.ok("GET", events)) == ["c"]
    assert api.call("DELETE", f"{events}?fieldSelector=foo%3Dx")[0] == 400
    assert api.call("DELETE", f"{events}?labelSelector=-x")[0] == 400
    assert names(api.ok("GET", events)) == ["c"]


@row("param.delete-collection.limit", "param.delete-collection.continue")
def test_collection_is_deleted_in_pages(api: Api, events: str) -> None:
    create(api, events, "a", "b", "c")

    first = api.ok("DELETE", f"{events}?limit=1")
    assert names(first) == ["a"]
    second = api.ok("DELETE", f"{events}?limit=1&continue={first['metadata']['continue']}")
    assert names(second) == ["b"]
    assert names(api.ok("GET", events)) == ["c"]
    assert api.call("DELETE", f"{events}?continue=nonsense")[0] == 400


@row("param.delete-collection.resourceVersion", "param.delete-collection.resourceVersionMatch")
def test_collection_deletion_respects_the_resource_version(api: Api, events: str) -> None:
    then = create(api, events, "a")[0]["metadata"]["resourceVersion"]
    create(api, events, "b")

    gone = api.ok("DELETE", f"{events}?resourceVersion={then}&resourceVersionMatch=Exact")

    assert names(gone) == ["a"]
    assert names(api.ok("GET", events)) == ["b"]
    assert api.call("DELETE", f"{events}?resourceVersionMatch=Exact")[0] == 422
    assert api.call("DELETE", f"{events}?resourceVersion=abc")[0] == 400
    assert api.call("DELETE", f"{events}?resourceVersion=99999999")[0] == 504
    assert names(api.ok("GET", events)) == ["b"]


@row("param.delete-collection.sendInitialEvents")
def test_collection_deletion_rejects_initial_events(api: Api, events: str) -> None:
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}?sendInitialEvents=true")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "sendInitialEvents")
    assert names(api.ok("GET", events)) == ["e"]


@row("param.delete-collection.timeoutSeconds", "param.delete-collection.gracePeriodSeconds")
def test_collection_deletion_accepts_timeout_seconds(api: Api, events: str) -> None:
    create(api, events, "e")
    for name in ("timeoutSeconds", "gracePeriodSeconds"):
        code, rejection = api.call("DELETE", f"{events}?{name}=soon")
        assert (code, rejection["message"]) == (400, 'strconv.ParseInt: parsing "soon": invalid syntax')
    assert names(api.ok("GET", events)) == ["e"]
    code, rejection = api.call("DELETE", f"{events}?timeoutSeconds=-1")  # the timeout had expired before it started
    assert (code, rejection["reason"]) == (504, "Timeout")
    api.call("PUT", f"{events}/e", event())
    assert names(api.ok("DELETE", f"{events}?timeoutSeconds=5&gracePeriodSeconds=7")) == ["e"]
    assert api.ok("GET", events)["items"] == []


@row("param.delete-collection.propagationPolicy")
def test_collection_deletion_validates_the_propagation_policy(api: Api, events: str) -> None:
    create(api, events, "e")
    code, rejection = api.call("DELETE", f"{events}?propagationPolicy=Foo")
    assert (code, rejection["details"]["causes"][0]["field"]) == (422, "propagationPolicy")
    assert names(api.ok("DELETE", f"{events}?propagationPolicy=Background")) == ["e"]


# Both groups, encodings, size.


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


# Retention.


@row("retention")
def test_events_expire_after_the_ttl_since_the_last_write(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = Server(tmp_path_factory.mktemp("ttl"), "--event-ttl=4s")
    events = f"{NEW}/namespaces/default/events"
    try:
        api = server.api()
        start = create(api, events, "untouched", "touched")[1]["metadata"]["resourceVersion"]
        time.sleep(2)
        api.ok("PATCH", f"{events}/touched", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        with api.watch(f"{events}?watch=1&resourceVersion={start}", seconds=30) as watched:
            seen = [next(watched) for _ in range(3)]
            assert names(api.ok("GET", events)) == []
    finally:
        server.stop()
    assert [(item["type"], item["object"]["metadata"]["name"]) for item in seen] == [
        ("MODIFIED", "touched"),
        ("DELETED", "untouched"),
        ("DELETED", "touched"),
    ]
