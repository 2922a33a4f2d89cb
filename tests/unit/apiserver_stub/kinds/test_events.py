"""Tests for events: conversion between both API groups, and the validation of each."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import events
from apiserver_stub.kinds.events import EventStrategy, to_core, to_new
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import kind_settings

NEW: dict[str, Any] = {
    "kind": "Event",
    "apiVersion": "events.k8s.io/v1",
    "metadata": {"name": "e", "namespace": "default"},
    "eventTime": "2026-11-21T00:00:00.000000Z",
    "action": "Binding",
    "reason": "Scheduled",
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
    "type": "Normal",
    "note": "n",
    "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
}


def causes(strict: bool, **changes: Any) -> list[tuple[str, str]]:
    strategy = EventStrategy(strict=strict, system_namespace="kube-system")
    event = {**(NEW if strict else to_core(NEW)), **changes}
    strategy.default(event)
    return [(cause.field, cause.message) for cause in strategy.validate(event)]


def test_views_convert_into_each_other() -> None:
    core = to_core(NEW)

    assert (core["message"], core["involvedObject"], core["reportingComponent"]) == (
        "n",
        NEW["regarding"],
        "example.com/c",
    )
    back = to_new(core, "events.k8s.io")
    assert {key: back[key] for key in NEW} == NEW


def test_valid_event_passes_validation_of_both_groups() -> None:
    assert causes(True) == []
    assert causes(False) == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"eventTime": None}, "eventTime"),
        ({"action": ""}, "action"),
        ({"action": "é" * 65}, "action"),
        ({"reason": ""}, "reason"),
        ({"reportingController": ""}, "reportingController"),
        ({"reportingController": "a/b/c"}, "reportingController"),
        ({"reportingInstance": "x" * 129}, "reportingInstance"),
        ({"note": "x" * 1025}, "message"),
        ({"type": "Other"}, "type"),
        ({"series": {"count": 1, "lastObservedTime": "2026-11-21T00:00:00.000000Z"}}, "series.count"),
        ({"series": {"count": 2}}, "series.lastObservedTime"),
        ({"deprecatedCount": 1}, "count"),
        ({"deprecatedSource": {"component": "x"}}, "source"),
        ({"regarding": {}, "metadata": {"name": "e", "namespace": "other"}}, "involvedObject.namespace"),
    ],
)
def test_invalid_event_of_the_events_group_is_rejected(changes: dict[str, Any], field: str) -> None:
    assert field in [found for found, _ in causes(True, **changes)]


def test_empty_event_reports_errors_in_order() -> None:
    strategy = EventStrategy(strict=True, system_namespace="kube-system")
    event: dict[str, Any] = {"metadata": {"namespace": "default"}}
    strategy.default(event)

    found = [(cause.field, cause.message) for cause in strategy.validate(event)]

    assert found == [("eventTime", "Required value"), ("type", 'Invalid value: "": has invalid value: ')]


def test_core_event_without_event_time_has_fewer_rules() -> None:
    assert causes(False, eventTime=None, type="Other", message="x" * 5000, action="", count=3) == []
    assert causes(False, eventTime=None, involvedObject={"namespace": "other"}) == [
        ("involvedObject.namespace", 'Invalid value: "other": does not match event.namespace')
    ]


def test_only_the_series_is_mutable() -> None:
    strategy = EventStrategy(strict=True, system_namespace="kube-system")
    series = {"count": 2, "lastObservedTime": "2026-11-21T00:00:01.000000Z"}

    assert strategy.validate_update({**NEW, "series": series}, NEW, "") == []
    fields = [cause.field for cause in strategy.validate_update({**NEW, "note": "z", "action": "b"}, NEW, "")]
    assert fields == ["message", "action"]


def test_fields_of_the_other_group_are_dropped() -> None:
    event = {**NEW, "message": {"no": "text"}, "unknown": 1}

    EventStrategy(strict=True, system_namespace="kube-system").default(event)

    assert event.keys().isdisjoint({"message", "unknown"})


def test_events_of_both_groups_share_storage() -> None:
    assert {resource.storage for resource in events.resources(kind_settings(Options()))} == {"core/events"}


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        (
            {"regarding": {"kind": "Node", "name": "n"}},
            'core.ObjectReference{Kind:"Node", Namespace:"", Name:"n", UID:"", APIVersion:"", ResourceVersion:"", '
            'FieldPath:""}',
        ),
        ({"deprecatedSource": {"host": "h"}}, 'core.EventSource{Component:"", Host:"h"}'),
        ({"eventTime": "2026-11-21T01:02:03.123400Z"}, "2026-11-21 01:02:03.1234 +0000 UTC"),
        ({"deprecatedFirstTimestamp": "2026-11-20T01:02:00Z"}, "2026-11-20 01:02:00 +0000 UTC"),
        ({"deprecatedCount": 3}, "3"),
        ({"note": None}, '""'),
    ],
)
def test_immutable_field_error_has_the_value_in_go_format(changes: dict[str, Any], shown: str) -> None:
    found = EventStrategy(strict=True, system_namespace="kube-system").validate_update({**NEW, **changes}, NEW, "")

    assert [cause.message for cause in found] == [f"Invalid value: {shown}: field is immutable"]


def test_event_without_source_is_selected_by_controller() -> None:
    core, _ = events.resources(kind_settings(Options()))

    assert core.field_value(to_core(NEW), "source") == "example.com/c"
    assert core.field_value({**to_core(NEW), "source": {"component": "kubelet"}}, "source") == "kubelet"


def test_events_group_omits_empty_strings() -> None:
    given = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}}
    EventStrategy(strict=False, system_namespace="kube-system").default(given)

    assert "reportingComponent" in given
    assert not {"reportingController", "reportingInstance"} & to_new(given, "events.k8s.io").keys()
