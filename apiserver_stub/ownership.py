"""Who owns which fields of an object: the entries of ``metadata.managedFields``, and what applying does with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apiserver_stub import fieldsets, objects
from apiserver_stub.fieldsets import FieldSet, difference, intersection, union
from apiserver_stub.objects import Object
from apiserver_stub.schema import Shape
from apiserver_stub.status import ApiError

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"


@dataclass(frozen=True, slots=True)
class Entry:
    """One manager's fields, in the names of its *api_version*."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    def same_manager(self, other: Entry) -> bool:
        """Return whether both stand for one manager: who applies has one entry whatever the version."""
        if (self.manager, self.operation, self.subresource) != (other.manager, other.operation, other.subresource):
            return False
        return self.operation == APPLY or self.api_version == other.api_version

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == UPDATE:
            text += f" using {self.api_version}"
        return text


@dataclass(frozen=True, slots=True)
class Kind:
    """What must be known about a kind to say who owns its fields."""

    shape: Shape
    api_version: str
    member_names: Mapping[str, str]
    """Members of the other version of the same objects → members of this one."""
    blank: Object
    """What an object has before anyone wrote a field."""
    ignored: tuple[tuple[str, ...], ...] = ()
    """Paths of fields that the request cannot change, so it owns none of them."""


def read(entries: Any) -> list[Entry] | None:
    """Return what ``metadata.managedFields`` holds; ``None`` when there is nothing or it makes no sense."""
    found = []
    try:
        for entry in entries or ():
            if (
                entry["operation"] not in (APPLY, UPDATE)
                or entry["fieldsType"] != "FieldsV1"
                or not entry["apiVersion"]
            ):
                return None
            found.append(
                Entry(
                    entry.get("manager") or "",
                    entry["operation"],
                    entry.get("apiVersion") or "",
                    entry.get("subresource") or "",
                    entry.get("time") or "",
                    fieldsets.decode(entry.get("fieldsV1") or {}),
                )
            )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return found or None


def current(new: Object, live: Object, *, whole: bool) -> list[Entry]:
    """Return the entries to go on from: those that *new* brings if it may (*whole*), else those of *live*.

    An empty list and a single empty entry ask to forget all of them.
    """
    given = new["metadata"].get("managedFields")
    if whole:
        if given in ([], [{}]):
            return []
        if found := read(given):
            return found
    return read(live["metadata"].get("managedFields")) or []


def updated(kind: Kind, live: Object, new: Object, entries: list[Entry], who: Entry) -> list[Entry]:
    """Return the entries after *who* wrote *new* where *live* was."""
    changed, removed = (_without(fields, kind.ignored) for fields in fieldsets.added(new, live, kind.shape))
    if not changed and not removed:
        return [entry for entry in entries if entry.fields]
    own = next((entry for entry in entries if entry.same_manager(who)), None)
    rest = _taken_away(kind, [entry for entry in entries if entry is not own], changed, removed)
    fields = union(difference(own.fields, removed) if own is not None else {}, changed)
    return _capped(_with_own(rest, own, replace(who, fields=fields)))


def applied(
    kind: Kind,
    live: Object,
    config: Object,
    entries: list[Entry],
    who: Entry,
    *,
    force: bool,
    claimed: Object | None = None,
) -> tuple[Object, list[Entry]]:
    """Return *live* with *config* applied by *who*, and the entries then.

    *claimed* is a configuration whose fields are no conflict, whoever owns them.

    :raises ApiError: 409, others own fields that would change; 500, *config* cannot be merged.
    """
    shape = kind.shape
    try:
        wanted = _without(fieldsets.owned(config, shape), kind.ignored)
        undisputed = fieldsets.owned(claimed, shape) if claimed is not None else {}
        merged: Object = fieldsets.merge(live, config, shape)
        own = next((entry for entry in entries if entry.same_manager(who)), None)
        others = [entry for entry in entries if entry is not own]
        if own is not None:
            kept = wanted
            for entry in others:
                kept = union(kept, _in_version(kind, entry))
            merged = fieldsets.remove(merged, difference(_in_version(kind, own), kept), kept, shape)
            merged.setdefault("metadata", {})
    except fieldsets.Unmergeable as error:
        raise ApiError(500, "", f"failed to create typed patch object: {error}") from error
    changed, removed = (_without(fields, kind.ignored) for fields in fieldsets.added(merged, live, shape))
    disputed = difference(changed, undisputed)
    conflicts = [(entry, both) for entry in others if (both := intersection(_in_version(kind, entry), disputed))]
    if conflicts and not force:
        raise _conflict(conflicts)
    rest = _taken_away(kind, others, changed, removed)
    new = replace(who, fields=wanted)
    if not changed and not removed:  # The time is that of the last change of the object, as upstream.
        new = replace(new, time=own.time if own is not None else "")
    return merged, _with_own(rest, own, new)


def write(entries: Sequence[Entry]) -> list[Object]:
    """Return *entries* as ``metadata.managedFields`` holds them."""
    ordered = sorted(
        entries, key=lambda entry: (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)
    )
    return [_written(entry) for entry in ordered]


def _written(entry: Entry) -> Object:
    found: Object = {"manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version}
    if entry.time:
        found["time"] = entry.time
    found |= {"fieldsType": "FieldsV1", "fieldsV1": fieldsets.encode(entry.fields)}
    if entry.subresource:
        found["subresource"] = entry.subresource
    return found


def before_first_apply(kind: Kind, live: Object) -> Entry:
    """Return the entry for the fields of an object that nobody claimed so far."""
    fields, _ = fieldsets.added(live, kind.blank, kind.shape)
    return Entry(BEFORE_FIRST_APPLY, UPDATE, kind.api_version, "", objects.now(), fields)


def _taken_away(kind: Kind, entries: list[Entry], changed: FieldSet, removed: FieldSet) -> list[Entry]:
    """Return *entries* of other managers after somebody changed and removed these fields."""
    gone = union(changed, removed)
    rest = []
    for entry in entries:
        fields = _in_version(kind, entry)
        left = difference(fields, gone)
        if not left:
            continue
        rest.append(entry if left == fields else replace(entry, fields=_renamed(kind, entry, left)))
    return rest


def _with_own(rest: list[Entry], own: Entry | None, new: Entry) -> list[Entry]:
    """Return *rest* with *new*, whose time stays that of *own* while the fields are the same."""
    if not new.fields:
        return rest
    if own is not None and own.fields == new.fields and own.api_version == new.api_version:
        new = own
    return [*rest, new]


def _capped(entries: list[Entry]) -> list[Entry]:
    """Return *entries* with at most :data:`MAX_UPDATERS` updates: the oldest are merged by version."""
    updates = sorted((entry for entry in entries if entry.operation == UPDATE), key=lambda entry: entry.time)
    if len(updates) <= MAX_UPDATERS:
        return entries
    surplus = len(updates) - MAX_UPDATERS + 1
    ancient: dict[str, Entry] = {}
    for entry in updates[:surplus]:
        before = ancient.get(entry.api_version)
        fields = union(before.fields, entry.fields) if before is not None else entry.fields
        ancient[entry.api_version] = replace(entry, manager=_ANCIENT, subresource="", fields=fields)
    return [entry for entry in entries if entry.operation != UPDATE] + [*ancient.values(), *updates[surplus:]]


def _in_version(kind: Kind, entry: Entry) -> FieldSet:
    """Return the fields of *entry* in the member names of *kind*."""
    if entry.api_version == kind.api_version or not kind.member_names:
        return entry.fields
    names = {"f:" + theirs: "f:" + ours for theirs, ours in kind.member_names.items()}
    return {names.get(element, element): below for element, below in entry.fields.items()}


def _renamed(kind: Kind, entry: Entry, fields: FieldSet) -> FieldSet:
    """Return *fields*, in the names of *kind*, in those of *entry*."""
    if entry.api_version == kind.api_version or not kind.member_names:
        return fields
    names = {"f:" + ours: "f:" + theirs for theirs, ours in kind.member_names.items()}
    return {names.get(element, element): below for element, below in fields.items()}


def _without(fields: FieldSet, paths: tuple[tuple[str, ...], ...]) -> FieldSet:
    for path in paths:
        fields = _without_path(fields, path)
    return fields


def _without_path(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    element, rest = f"f:{path[0]}", path[1:]
    if element not in fields:
        return fields
    below = _without_path(fields[element], rest) if rest else {}
    left = {name: found for name, found in fields.items() if name != element}
    return {**left, element: below} if below else left


def _conflict(conflicts: list[tuple[Entry, FieldSet]]) -> ApiError:
    found = [(str(entry), list(fieldsets.paths(fields))) for entry, fields in conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, places in found
        for path in places
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = []
        for manager, places in sorted(found):
            lines += [f"conflicts with {manager}:", *(f"- {path}" for path in places)]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ApiError(409, "Conflict", text, {"causes": causes})
