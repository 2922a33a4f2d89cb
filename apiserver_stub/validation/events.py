"""Validation of events: the lenient rules of ``core/v1``, and those that the events group adds.

Errors name the fields of ``core/v1`` in both, so every function takes the names of the version at hand: field of
``core/v1`` → field, where they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, quote, required
from nodeagent.base.names import qualified_name_problems

_TEXT_LIMIT_BYTES, _NOTE_LIMIT_BYTES = 128, 1024
_DEFAULT = "default"
_UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "reason",  # upstream reports it twice
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

Names = Mapping[str, str]


def validate_event(event: Object, names: Names, controller_field: str, system_namespace: str) -> list[Cause]:
    """Return the errors in an event that every version reports.

    :param controller_field: the field that names the controller.
    """
    namespace = event["metadata"].get("namespace") or ""
    about = (event.get(names.get("involvedObject", "involvedObject")) or {}).get("namespace") or ""
    has_time = bool(event.get("eventTime"))
    if about:
        fits = has_time or about == namespace
    else:
        fits = namespace in ((_DEFAULT, system_namespace) if has_time else ("", _DEFAULT))
    causes = [] if fits else [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
    if not has_time:
        return causes
    if not (controller := event.get(controller_field) or ""):
        causes.append(required(controller_field))
    causes += invalid_each(controller_field, controller, qualified_name_problems(controller))
    for name in ("reportingInstance", "action", "reason"):
        value = event.get(name) or ""
        if not value:
            causes.append(required(name))
        causes += _validate_length(value, name, _TEXT_LIMIT_BYTES)
    message = event.get(names.get("message", "message")) or ""
    return causes + _validate_length(message, "message", _NOTE_LIMIT_BYTES)


def validate_new_event(event: Object, names: Names) -> list[Cause]:
    """Return the errors in a new event that the events group reports in addition."""
    causes = _validate_series(event)
    if not event.get("eventTime"):
        causes.append(required("eventTime"))
    if (kind := event.get("type") or "") not in ("Normal", "Warning"):
        causes.append(invalid_value("type", "", f"has invalid value: {kind}"))
    return causes + [
        invalid_value(name, "", "needs to be unset") for name in _UNSET if event.get(names.get(name, name))
    ]


def validate_event_update(new: Object, old: Object, names: Names) -> list[Cause]:
    """Return the errors in the change of an event that the events group reports in addition."""
    causes = _validate_series(new) if new.get("series") != old.get("series") else []
    for name in _IMMUTABLE:
        field = names.get(name, name)
        after, before = new.get(field), old.get(field)
        if after != before and (name == "related" or (after or None) != (before or None)):
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {_shown(name, after)}: field is immutable", name))
    return causes


def _validate_length(value: str, name: str, limit_bytes: int) -> list[Cause]:
    if len(value) * 4 <= limit_bytes or len(value.encode()) <= limit_bytes:
        return []
    return [invalid_value(name, "", f"can have at most {limit_bytes} characters")]


def _validate_series(event: Object) -> list[Cause]:
    if (series := event.get("series")) is None:
        return []
    causes = []
    if (series.get("count") or 0) < 2:
        causes.append(invalid_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        causes.append(required("series.lastObservedTime"))
    return causes


def _shown(name: str, value: Any) -> str:
    """Return the value of field *name* as messages show it."""
    match name:
        case "eventTime" | "firstTimestamp" | "lastTimestamp":
            date, _, clock = (value or "0001-01-01T00:00:00Z").rstrip("Z").partition("T")
            return f"{date} {clock.rstrip('0').rstrip('.') if '.' in clock else clock} +0000 UTC"
        case "involvedObject" | "related" if value is not None:
            return _struct("core.ObjectReference", value, _REFERENCE)
        case "source":
            return _struct("core.EventSource", value or {}, ("component", "host"))
        case "count":
            return str(value or 0)
    return quote(value if name == "related" else value or "")


def _struct(name: str, value: Object, fields: Sequence[str]) -> str:
    words = {"uid": "UID", "apiVersion": "APIVersion"}
    shown = (f"{words.get(item, item[0].upper() + item[1:])}:{quote(value.get(item) or '')}" for item in fields)
    return f"{name}{{{', '.join(shown)}}}"
