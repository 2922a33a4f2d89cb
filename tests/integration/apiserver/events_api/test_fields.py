"""Tests of the fields of Events on a running server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.apiserver.conftest import Api
from tests.integration.apiserver.events_api.events import CORE, MERGE, NEW, WHEN, causes, create, event, row


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
