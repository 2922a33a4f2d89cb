"""Events of the core and the events group: one collection, stored in the last written version, served in both.

spec: events.*
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.kinds.columns import name
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.kinds.tables import since
from apiserver_stub.validation.events import validate_event, validate_event_update, validate_new_event
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import path_problems
from nodeagent.base.names import subdomain_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_STORAGE = "core/events"
_CORE_RULES = MetadataRules(whole=0, changes=0, standard_finalizers=False)
_NEW_RULES = MetadataRules(whole=0)
_NEW_FROM_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_FROM_NEW = {core: new for new, core in _NEW_FROM_CORE.items()}
_SHARED = frozenset(
    (
        "kind",
        "apiVersion",
        "metadata",
        "eventTime",
        "series",
        "action",
        "reason",
        "type",
        "related",
        "reportingInstance",
    )
)
_CORE_ALWAYS: dict[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_NEW_ALWAYS: dict[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}
_REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def to_core(event: Object) -> Object:
    """Return *event* as a core/v1 event."""
    found: Object = {"kind": "Event", "apiVersion": "v1"}
    for key, value in event.items():
        if key not in found:
            found[_NEW_FROM_CORE.get(key, key)] = value
    for key, value in _CORE_ALWAYS.items():
        found.setdefault(key, value)
    return found


def to_new(event: Object, group: str) -> Object:
    """Return *event* as an event of the events group *group*."""
    found: Object = {"kind": "Event", "apiVersion": f"{group}/v1"}
    for key, value in event.items():
        if key not in found and value != "":
            found[_CORE_FROM_NEW.get(key, key)] = value
    for key, value in _NEW_ALWAYS.items():
        found.setdefault(key, value)
    return found


class EventStrategy(Strategy):
    """Events of either group; the events group is stricter. Error messages contain core field names in both."""

    def __init__(self, system_namespace: str, *, strict: bool) -> None:
        self._system_namespace = system_namespace
        self._strict = self.validates_metadata = strict
        self._known = _SHARED | (_NEW_FROM_CORE.keys() if strict else _CORE_FROM_NEW.keys())
        self._always = _NEW_ALWAYS if strict else _CORE_ALWAYS

    def default(self, new: Object) -> None:
        """Set the fields that are always present, and drop those of the other group."""
        for key in [key for key in new if key not in self._known]:
            del new[key]
        for key, value in self._always.items():
            if new.get(key) is None:
                new[key] = value

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """Keep all changes; :meth:`validate_update` rejects those of immutable fields."""

    def validate(self, new: Object) -> list[Cause]:
        if not self._strict:
            return validate_event(new, {}, "reportingComponent", self._system_namespace)
        causes = validate_event(new, _CORE_FROM_NEW, "reportingController", self._system_namespace)
        return causes + validate_new_event(new, _CORE_FROM_NEW)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if not self._strict:
            return validate_event(new, {}, "reportingComponent", self._system_namespace)
        causes = validate_event(new, _CORE_FROM_NEW, "reportingController", self._system_namespace)
        return causes + validate_event_update(new, old, _CORE_FROM_NEW)


def resources(settings: KindSettings) -> list[Resource]:
    events_group, system_namespace = settings.identity.group("events"), settings.identity.system_namespace

    def declare(group: str, strategy: Strategy, fields: dict[str, tuple[str, ...]], view: Any) -> Resource:
        renamed = {"v1": _CORE_FROM_NEW} if group else {f"{events_group}/v1": _NEW_FROM_CORE}
        return Resource(
            group,
            "v1",
            "Event",
            "events",
            short_names=("ev",),
            strategy=strategy,
            columns=_columns(),
            fields=fields,
            fallback_paths={} if group else {"source": ("reportingComponent",)},
            storage=_STORAGE,
            convert=view,
            renamed_fields=renamed,
            create_on_update=True,
            metadata_rules=_NEW_RULES if group else _CORE_RULES,
            name_problems=subdomain_problems if group else path_problems,
            group_in_errors=False,
            ttl=True,
        )

    core_fields = {f"involvedObject.{part}": ("involvedObject", part) for part in _REFERENCE_FIELDS}
    new_fields = {f"regarding.{part}": ("regarding", part) for part in _REFERENCE_FIELDS}
    plain: dict[str, tuple[str, ...]] = {"reason": ("reason",), "type": ("type",)}
    core = {"reportingComponent": ("reportingComponent",), "source": ("source", "component")}
    return [
        declare("", EventStrategy(system_namespace, strict=False), {**plain, **core_fields, **core}, to_core),
        declare(
            events_group,
            EventStrategy(system_namespace, strict=True),
            {**plain, **new_fields, "reportingController": ("reportingController",)},
            lambda event: to_new(event, events_group),
        ),
    ]


def _columns() -> tuple[Column, ...]:
    return (
        Column("Last Seen", _core(_last_seen), description="Time since the event was last seen."),
        Column("Type", _core(lambda event: event.get("type") or "")),
        Column("Reason", _core(lambda event: event.get("reason") or "")),
        Column("Object", _core(_object)),
        Column("Subobject", _core(lambda event: dig(event, ("involvedObject", "fieldPath")) or ""), wide=True),
        Column("Source", _core(_source), wide=True),
        Column("Message", _core(lambda event: (event.get("message") or "").strip())),
        Column("First Seen", _core(_first_seen), wide=True),
        Column("Count", _core(_count), wide=True),
        Column("Name", name, wide=True, format="name"),
    )


def _core(cell: Any) -> Any:
    """Return *cell*, which expects a core event, for events of either group."""

    def either(event: Object) -> Any:
        return cell(event if event["apiVersion"] == "v1" else to_core(event))

    return either


def _last_seen(event: Object) -> str:
    time = dig(event, ("series", "lastObservedTime")) or event.get("lastTimestamp")
    return since(time) if time else _first_seen(event)


def _first_seen(event: Object) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"))


def _object(event: Object) -> str:
    reference = event.get("involvedObject") or {}
    kind, object_name = (reference.get("kind") or "").lower(), reference.get("name") or ""
    return f"{kind}/{object_name}" if object_name else kind


def _source(event: Object) -> str:
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent") or ""
    instance = source.get("host") or event.get("reportingInstance")
    return f"{component}, {instance}" if instance else component


def _count(event: Object) -> int:
    return dig(event, ("series", "count")) or event.get("count") or 1
