"""Tests for the validation of events in both versions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.events import EventStrategy
from apiserver_stub.validation.events import validate_event, validate_event_update, validate_new_event

_NAMES = {"involvedObject": "regarding", "message": "note", "lastTimestamp": "deprecatedLastTimestamp"}
_NEW = {
    "metadata": {"name": "e", "namespace": "a"},
    "eventTime": "2024-01-02T03:04:05.000000Z",
    "reportingController": "example.com/c",
    "reportingInstance": "c-1",
    "action": "Start",
    "reason": "Started",
    "type": "Normal",
    "regarding": {"namespace": "a"},
}


def _fields(causes: list[Any]) -> list[str]:
    return [cause.field for cause in causes]


@pytest.mark.parametrize(
    ("namespace", "about", "has_time", "fits"),
    [
        ("a", "a", False, True),
        ("a", "b", False, False),
        ("a", "b", True, True),
        ("a", "", False, False),
        ("default", "", False, True),
        ("default", "", True, True),
        ("kube-system", "", False, False),
        ("kube-system", "", True, True),
    ],
)
def test_namespace_of_an_event_fits_its_object(namespace: str, about: str, has_time: bool, fits: bool) -> None:
    event: dict[str, Any] = {**_NEW, "metadata": {"namespace": namespace}, "regarding": {"namespace": about}}
    if not has_time:
        event["eventTime"] = None
    causes = validate_event(event, _NAMES, "reportingController", "kube-system")
    assert _fields(causes) == ([] if fits else ["involvedObject.namespace"])


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"reportingController": ""}, ["reportingController"] * 3),
        ({"action": "", "reason": "x" * 129}, ["action", "reason"]),
        ({"note": "é" * 513}, ["message"]),
    ],
)
def test_texts_of_a_new_event_are_validated(changes: Any, fields: list[str]) -> None:
    assert _fields(validate_event({**_NEW, **changes}, _NAMES, "reportingController", "kube-system")) == fields


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"eventTime": None, "type": ""}, ["eventTime", "type"]),
        ({"deprecatedLastTimestamp": "2024-01-02T03:04:05Z"}, ["lastTimestamp"]),
        ({"series": {"count": 1}}, ["series.count", "series.lastObservedTime"]),
    ],
)
def test_events_group_has_stricter_rules(changes: Any, fields: list[str]) -> None:
    assert _fields(validate_new_event({**_NEW, **changes}, _NAMES)) == fields


def test_only_the_series_of_an_event_changes() -> None:
    series = {"count": 2, "lastObservedTime": "2024-01-02T03:04:06.000000Z"}
    assert validate_event_update({**_NEW, "series": series}, _NEW, _NAMES) == []
    assert _fields(validate_event_update({**_NEW, "reason": "x", "related": {}}, _NEW, _NAMES)) == [
        "reason",
        "reason",
        "related",
    ]


@pytest.mark.parametrize(("stored", "fields"), [(2, ["series.lastObservedTime"]), (1, [])])
def test_series_of_an_event_is_validated_if_it_changes(stored: int, fields: list[str]) -> None:
    old, new = ({**_NEW, "series": {"count": count}} for count in (stored, 1 if stored == 1 else 3))

    assert _fields(validate_event_update(new, old, _NAMES)) == fields


def test_metadata_of_invalid_core_events_is_not_validated() -> None:
    assert EventStrategy(strict=True, system_namespace="kube-system").validates_metadata
    assert not EventStrategy(strict=False, system_namespace="kube-system").validates_metadata
