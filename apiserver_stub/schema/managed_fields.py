"""Entries of ``metadata.managedFields``: reading, writing, and the limit on their number. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema import field_sets
from apiserver_stub.schema.field_sets import FieldSet, union
from nodeagent.base.structs import Struct

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"


class ManagedFieldsEntry(Struct, frozen=True):
    """One manager's fields, in the names of its *api_version*."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def identifier(self) -> str:
        """The identity of the manager; appliers have one entry for all API versions."""
        values = {"manager": self.manager, "operation": self.operation}
        if self.operation != APPLY:
            values["apiVersion"] = self.api_version
        values["subresource"] = self.subresource
        return msgspec.json.encode({name: value for name, value in values.items() if value}).decode()

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == UPDATE:
            text += f" using {self.api_version}"
        return text


def read(entries: Any) -> list[ManagedFieldsEntry] | None:
    """Return the entries in ``metadata.managedFields``, ``None`` if there are none or one is invalid.

    Of several entries with the same identity, the last one takes effect.
    """
    found: dict[str, ManagedFieldsEntry] = {}
    try:
        for entry in entries or ():
            if (
                entry["operation"] not in (APPLY, UPDATE)
                or entry["fieldsType"] != "FieldsV1"
                or not entry["apiVersion"]
            ):
                return None
            read_entry = ManagedFieldsEntry(
                entry.get("manager") or "",
                entry["operation"],
                entry["apiVersion"],
                entry.get("subresource") or "",
                entry.get("time") or "",
                field_sets.decode(entry.get("fieldsV1") or {}),
            )
            found[read_entry.identifier] = read_entry
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    return list(found.values()) or None


def current(new: Object, live: Object, *, writable: bool) -> list[ManagedFieldsEntry]:
    """Return the entries before a write: those in *new* if they are *writable* and valid, otherwise those of *live*.

    An empty list or a single empty entry in *new* resets them.
    """
    sent = new["metadata"].get("managedFields")
    if writable:
        if sent in ([], [{}]):
            return []
        if found := read(sent):
            return found
    return read(live["metadata"].get("managedFields")) or []


def write(entries: Sequence[ManagedFieldsEntry]) -> list[Object]:
    """Return *entries* in the form of ``metadata.managedFields``."""
    ordered = sorted(
        entries, key=lambda entry: (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)
    )
    return [_encoded(entry) for entry in ordered]


def _encoded(entry: ManagedFieldsEntry) -> Object:
    found: Object = {"manager": entry.manager} if entry.manager else {}
    found |= {"operation": entry.operation, "apiVersion": entry.api_version}
    if entry.time:
        found["time"] = entry.time
    found |= {"fieldsType": "FieldsV1", "fieldsV1": field_sets.encode(entry.fields)}
    if entry.subresource:
        found["subresource"] = entry.subresource
    return found


def capped(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Return *entries* with at most :data:`MAX_UPDATERS` updates: the oldest are merged by API version."""
    updates = [entry for entry in entries if entry.operation == UPDATE]
    surplus = len(updates) - MAX_UPDATERS
    if surplus <= 0:
        return entries
    updates.sort(key=lambda entry: (entry.time, entry.identifier))
    buckets: dict[str, list[ManagedFieldsEntry]] = {}
    kept = []
    for entry in updates:
        bucket = buckets.setdefault(entry.api_version, [])
        if surplus <= 0:
            kept.append(entry)
            continue
        surplus -= bool(bucket)
        bucket.append(entry)
    return [entry for entry in entries if entry.operation != UPDATE] + [
        *(_merged(bucket) for bucket in buckets.values() if bucket),
        *kept,
    ]


def _merged(updates: list[ManagedFieldsEntry]) -> ManagedFieldsEntry:
    """Return the entry for *updates*, oldest first, of one API version."""
    first, *others = updates
    if not others:
        return first
    fields = first.fields
    for entry in others:
        fields = union(fields, entry.fields)
    return replace(first, manager=_ANCIENT, subresource="", time=others[-1].time, fields=fields)


def same_but_times(entries: Any, others: Any) -> bool:
    """Return whether both lists have the same entries in the same order, apart from times."""
    if not entries or not others or len(entries) != len(others):
        return False
    return all({**one, "time": None} == {**other, "time": None} for one, other in zip(entries, others, strict=True))
