"""Field managers of write requests, and the entries in ``metadata.managedFields`` after a write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.schema import field_ownership, field_sets, managed_fields, shapes
from apiserver_stub.schema.field_ownership import Conflicts, Kind
from apiserver_stub.schema.field_sets import LEAF, FieldSet, union
from apiserver_stub.schema.managed_fields import APPLY, UPDATE, ManagedFieldsEntry
from apiserver_stub.schema.typed.elements import InvalidElement
from apiserver_stub.schema.typed.identity import identity_of
from apiserver_stub.schema.typed.validation import summary, validate
from apiserver_stub.verbs import last_applied
from apiserver_stub.verbs.resource_cache import resource_cache
from nodeagent.base.text_cache import text_cache

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource

_MANAGER_LIMIT = 128
_MOST_FLAT, _MOST_FLAT_NAMES = 512, 64
_NOTHING = msgspec.Raw(b"{}")


def writer(request: Request, resource: Resource, operation: str = UPDATE) -> ManagedFieldsEntry:
    """Return the entry for the field manager of *request*, without fields."""
    name = request.query.get("fieldManager") or _from_agent(request.headers.get("User-Agent", ""))
    return ManagedFieldsEntry(name, operation, resource.api_version, request.info.subresource, objects.now(), {})


def track_create(request: Request, resource: Resource, obj: Object) -> None:
    """Record the field manager as the owner of the fields that are set in the new *obj*."""
    kind = kind_of(resource, "", request.identity.api_domain)
    if kind is None:
        return
    sender = writer(request, resource)
    if (
        not request.dry_run
        and (fields := _fields_of_flat(kind, resource, obj, request.identity.api_domain)) is not None
    ):
        if fields == _NOTHING:
            return
        entry = {
            "manager": sender.manager,
            "operation": sender.operation,
            "apiVersion": sender.api_version,
            "time": sender.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        obj["metadata"]["managedFields"] = [entry]
        return
    entries = managed_fields.current(obj, kind.blank, writable=True)
    _put_updated(kind, kind.blank, obj, entries, sender)


def _fields_of_flat(kind: Kind, resource: Resource, obj: Object, api_domain: str) -> msgspec.Raw | None:
    """Return the fields that the creator of *obj* owns, as JSON, if *obj* is flat: no field in it is owned in parts.

    ``None`` for other objects. Events are numerous and set few different combinations of fields, so the result is
    cached per combination.
    """
    metadata = obj["metadata"]
    if "managedFields" in metadata or "ownerReferences" in metadata or "finalizers" in metadata:
        return None
    if any(map(obj.get, _composite_fields(resource, api_domain))):
        return None
    blank = kind.blank
    set_fields = tuple([name for name, value in obj.items() if value or name not in blank or value != blank[name]])
    field_names = (
        set_fields,
        *metadata,
        None,
        *(metadata.get("labels") or ()),
        None,
        *(metadata.get("annotations") or ()),
    )
    known = _known_flat(resource)
    found = known.get(field_names)
    if found is None:
        entry = field_ownership.before_first_apply(kind, obj)
        found = msgspec.Raw(objects.encode(field_sets.encode(entry.fields)))
        if len(field_names) <= _MOST_FLAT_NAMES:
            if len(known) >= _MOST_FLAT:
                known.clear()
            known[field_names] = found
    return found


@resource_cache
def _known_flat(resource: Resource) -> dict[tuple[str | tuple[str, ...] | None, ...], msgspec.Raw]:
    """Return the cached results for *resource*, by the names of fields, labels and annotations."""
    return {}


@resource_cache
def _composite_fields(resource: Resource, api_domain: str) -> frozenset[str]:
    """Return the top-level fields of *resource*, except metadata, whose parts may have different owners."""
    schema = resource.schema_in(api_domain)
    members = schema.shape.members.items() if schema is not None else ()
    return frozenset(name for name, member in members if not member.leaf and name != "metadata")


def track_update(request: Request, resource: Resource, new: Object, old: Object) -> None:
    """Record the field manager as the owner of the differences between *old* and *new*."""
    subresource = request.info.subresource
    kind = kind_of(resource, subresource, request.identity.api_domain)
    if kind is None:
        return
    entries = managed_fields.current(new, old, writable=not subresource)
    if not entries:  # Managers are tracked since the creation of an object, or since the first apply.
        put(new, [])
        return
    _put_updated(kind, old, new, entries, writer(request, resource))


def _put_updated(
    kind: Kind, old: Object, new: Object, entries: list[ManagedFieldsEntry], sender: ManagedFieldsEntry
) -> None:
    """Write the entries after *sender* replaced *old* by *new* into *new*; none if list items lack their keys."""
    try:
        put(new, field_ownership.updated(kind, old, new, entries, sender))
    except InvalidElement:
        put(new, [])


def track_action(request: Request, resource: Resource, obj: Object) -> None:
    """Record the field manager as the owner of *obj*, which a subresource of *resource* does not store."""
    shape = shapes.of(obj["apiVersion"], obj["kind"], request.identity.api_domain)
    if shape is not None:
        kind = Kind(shape, obj["apiVersion"], {}, {"metadata": {}, **shape.blank()}, {})
        sender = replace(writer(request, resource), api_version=obj["apiVersion"])
        put(obj, field_ownership.updated(kind, kind.blank, obj, [], sender))


def put(obj: Object, entries: list[ManagedFieldsEntry]) -> None:
    """Write *entries* into *obj*."""
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = managed_fields.write(entries)


def apply_to(
    request: Request, resource: Resource, kind: Kind, live: Object, config: Object, *, force: bool
) -> tuple[Object, list[ManagedFieldsEntry]]:
    """Return *live* with *config* applied by the field manager, and the resulting entries.

    :raises ApiError: 409, other managers own fields that would change; 500, items of lists of *live* lack their keys.
    """
    sender = writer(request, resource, APPLY)
    entries = managed_fields.current(live, live, writable=True)
    try:
        if not entries and live is not kind.blank:
            entries = [field_ownership.before_first_apply(kind, live)]
        merged, entries = field_ownership.applied(kind, live, config, entries, sender, force=force)
    except Conflicts as conflicts:
        allowed = (
            last_applied.undisputed(kind.shape, live, request.identity)
            if sender.manager == last_applied.MANAGER
            else None
        )
        left = conflicts.without(allowed) if allowed is not None else conflicts
        if left is not None:
            raise left.error() from conflicts
        merged, entries = field_ownership.applied(kind, live, config, entries, sender, force=True)
    except InvalidElement as error:
        identity, problems = identity_of(live), summary(validate(live, kind.shape, repeats=True))
        if entries:
            raise ApiError(500, "", f"failed to create typed live object ({identity}): {problems}") from error
        text = f"failed to convert new object ({identity}) to smd typed: {problems}"
        raise ApiError(500, "", f"failed to create manager for existing fields: {text}") from error
    if sender.manager == last_applied.MANAGER:
        last_applied.refresh(merged, config, request.identity)
    return merged, entries


@resource_cache
def kind_of(resource: Resource, subresource: str, api_domain: str) -> Kind | None:
    """Return the ownership properties of *resource* as written through *subresource*; ``None`` without a schema."""
    schema = resource.schema_in(api_domain)
    if schema is None:
        return None
    shape = schema.shape
    blank: Object = {"metadata": {}, **shape.blank()}
    default: tuple[str, ...] = ()
    if resource.subresource("status") is not None:
        default = ("spec",) if subresource == "status" else ("status",)
    reset: FieldSet = {}
    for path in resource.reset_fields.get(subresource, default):
        fields = LEAF
        for name in reversed(path.split(".")):
            fields = {f"f:{name}": fields}
        reset = union(reset, fields)
    return Kind(shape, resource.api_version, resource.renamed_fields, blank, reset)


@text_cache(512)
def _from_agent(agent: str) -> str:
    name = "".join(character for character in agent.partition("/")[0] if character.isprintable())
    while len(name.encode()) > _MANAGER_LIMIT:
        name = name[:-1]
    return name or "unknown"
