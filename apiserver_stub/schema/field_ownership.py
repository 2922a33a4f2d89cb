"""Field ownership after writes, and the objects that result from applied configurations. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.schema.field_sets import (
    LEAF,
    SELF,
    FieldSet,
    difference,
    intersection,
    paths,
    recursive_difference,
    union,
    with_struct_fields,
)
from apiserver_stub.schema.managed_fields import UPDATE, ManagedFieldsEntry, capped
from apiserver_stub.schema.shapes import Shape
from apiserver_stub.schema.typed.comparison import compare, fields_of
from apiserver_stub.schema.typed.merging import merge, remove
from nodeagent.base.structs import Struct

BEFORE_FIRST_APPLY = "before-first-apply"
_UNOWNED = (
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
)
_STRIPPED: FieldSet = {
    "f:apiVersion": LEAF,
    "f:kind": LEAF,
    "f:metadata": {SELF: {}, **{f"f:{name}": LEAF for name in _UNOWNED}},
}
"""Fields that have no owner."""


class Kind(Struct, frozen=True):
    """The properties of a kind that determine the ownership of its fields."""

    shape: Shape
    api_version: str
    renamed: Mapping[str, Mapping[str, str]]
    """Other API versions of the same objects: their fields → those of this version."""
    blank: Object
    """The object before its first field is set."""
    reset: FieldSet
    """Fields that the request cannot change, so it owns none of them."""


class Conflicts(Exception):
    """Fields of other managers that an applied configuration changes."""

    def __init__(self, fields: Sequence[tuple[ManagedFieldsEntry, FieldSet]]) -> None:
        super().__init__()
        self.fields = fields

    def without(self, allowed: FieldSet) -> Conflicts | None:
        """Return the conflicts about fields that are not in *allowed*, ``None`` if there are none."""
        left = [(entry, rest) for entry, fields in self.fields if (rest := difference(fields, allowed))]
        return Conflicts(left) if left else None

    def error(self) -> ApiError:
        """Return the response to the request."""
        found = sorted(
            ((entry.identifier, str(entry), list(paths(fields))) for entry, fields in self.fields),
            key=lambda conflict: conflict[0],
        )
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for _, manager, field_paths in found
            for path in field_paths
        ]
        if len(causes) == 1:
            text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            lines = []
            for _, manager, field_paths in found:
                lines += [f"conflicts with {manager}:", *(f"- {path}" for path in field_paths)]
            text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
        return ApiError(409, "Conflict", text, {"causes": causes})


def updated(
    kind: Kind, live: Object, new: Object, entries: list[ManagedFieldsEntry], sender: ManagedFieldsEntry
) -> list[ManagedFieldsEntry]:
    """Return the entries after *sender* replaced *live* by *new*; it owns the changed and added fields."""
    taken, rest = _transferred(kind, live, new, _convertible(kind, entries))
    if taken:
        own = next((entry for entry in rest if entry.identifier == sender.identifier), None)
        fields = union(own.fields, taken) if own is not None else taken
        rest = [*(entry for entry in rest if entry is not own), replace(sender, fields=fields)]
    return capped(rest)


def before_first_apply(kind: Kind, live: Object) -> ManagedFieldsEntry:
    """Return the entry for the fields of an object without tracked managers."""
    fields, _ = _transferred(kind, kind.blank, live, [])
    return ManagedFieldsEntry(BEFORE_FIRST_APPLY, UPDATE, kind.api_version, "", objects.now(), fields)


def applied(
    kind: Kind,
    live: Object,
    config: Object,
    entries: list[ManagedFieldsEntry],
    sender: ManagedFieldsEntry,
    *,
    force: bool,
) -> tuple[Object, list[ManagedFieldsEntry]]:
    """Return *live* with the valid *config* applied by *sender*, and the resulting entries.

    Fields that *sender* applied before and *config* lacks are removed, unless other managers own them. The entry of
    *sender* has the time of this request only if the object changes.

    :raises Conflicts: other managers own fields that would change, and *force* is not set.
    """
    shape = kind.shape
    entries = _convertible(kind, entries)
    own = next((entry for entry in entries if entry.identifier == sender.identifier), None)
    others = [entry for entry in entries if entry is not own]
    stated = recursive_difference(fields_of(config, shape), kind.reset)
    merged: Object = merge(live, config, shape)
    if own is not None:
        managed = stated
        for entry in others:
            managed = union(managed, _in_version(kind, entry))
        merged = _pruned(merged, _in_version(kind, own), managed, shape)
    removed, modified, added = _differences(kind, live, merged)
    changed = union(modified, added)
    conflicts = [(entry, both) for entry in others if (both := intersection(_in_version(kind, entry), changed))]
    if conflicts and not force:
        raise Conflicts(conflicts)
    rest = _remaining(kind, others, union(changed, removed))
    if fields := difference(stated, _STRIPPED):
        time = sender.time if merged != live else own.time if own is not None else ""
        rest.append(replace(sender, time=time, fields=fields))
    return merged, rest


def _pruned(merged: Object, last: FieldSet, managed: FieldSet, shape: Shape) -> Object:
    """Return *merged* without the fields in *last*, except those that are *managed* or contain managed ones."""
    last = with_struct_fields(last, shape)
    whole = with_struct_fields(fields_of(merged, shape), shape)

    def left(pruned: Object) -> FieldSet:
        return with_struct_fields(fields_of(pruned, shape), shape)

    pruned = remove(merged, last, shape)
    kept = union(left(pruned), with_struct_fields(managed, shape))
    pruned = remove(merged, difference(whole, kept), shape)
    result: Object = remove(merged, intersection(difference(whole, left(pruned)), last), shape)
    return result


def _transferred(
    kind: Kind, live: Object, new: Object, entries: list[ManagedFieldsEntry]
) -> tuple[FieldSet, list[ManagedFieldsEntry]]:
    """Return the changed and added fields of *new*, and *entries* without them and without the removed fields."""
    removed, modified, added = _differences(kind, live, new)
    changed = union(modified, added)
    return difference(changed, _STRIPPED), _remaining(kind, entries, union(changed, removed))


def _differences(kind: Kind, live: Object, new: Object) -> tuple[FieldSet, FieldSet, FieldSet]:
    found = compare(live, new, kind.shape)
    removed, modified, added = (recursive_difference(fields, kind.reset) for fields in found)
    return removed, modified, added


def _convertible(kind: Kind, entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Return *entries* without those of API versions that are not served."""
    return [entry for entry in entries if entry.api_version == kind.api_version or entry.api_version in kind.renamed]


def _remaining(kind: Kind, entries: list[ManagedFieldsEntry], lost: FieldSet) -> list[ManagedFieldsEntry]:
    """Return *entries* without the fields in *lost*, and without those that become empty."""
    rest = []
    for entry in entries:
        fields = _in_version(kind, entry)
        left = difference(fields, lost)
        if left:
            rest.append(entry if left == fields else replace(entry, fields=_from_version(kind, entry, left)))
    return rest


def _in_version(kind: Kind, entry: ManagedFieldsEntry) -> FieldSet:
    """Return the fields of *entry* in the names of *kind*."""
    names = kind.renamed.get(entry.api_version)
    if not names:
        return entry.fields
    elements = {f"f:{theirs}": f"f:{ours}" for theirs, ours in names.items()}
    return {elements.get(element, element): below for element, below in entry.fields.items()}


def _from_version(kind: Kind, entry: ManagedFieldsEntry, fields: FieldSet) -> FieldSet:
    """Return *fields*, in the names of *kind*, in those of *entry*."""
    names = kind.renamed.get(entry.api_version)
    if not names:
        return fields
    elements = {f"f:{ours}": f"f:{theirs}" for theirs, ours in names.items()}
    return {elements.get(element, element): below for element, below in fields.items()}
