"""Field ownership along a write: who writes, what that takes, and the entries that say so afterwards."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from apiserver_stub import fieldsets, objects, ownership, schema
from apiserver_stub.objects import Object
from apiserver_stub.ownership import APPLY, UPDATE, Entry, Kind
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.request import Request
    from apiserver_stub.resources.registry import Resource

_MANAGER_LIMIT = 128
_CLIENT = "kubectl"
_LAST_APPLIED = identity.current().label("last-applied-configuration", "kubectl")
_FLAT_LIMIT = 4096
_NOTHING = msgspec.Raw(b"{}")
_flat: dict[tuple[Resource, tuple[str | tuple[str, ...] | None, ...]], msgspec.Raw] = {}


def writer(request: Request, resource: Resource, operation: str = UPDATE) -> Entry:
    """Return the entry of who sends *request*, still without fields."""
    name = request.query.get("fieldManager") or _from_agent(request.headers.get("User-Agent", ""))
    return Entry(name, operation, resource.api_version, request.info.subresource, objects.now(), {})


def track_create(request: Request, resource: Resource, obj: Object) -> None:
    """Record that the sender owns what is set in the new *obj*."""
    kind = kind_of(resource, "")
    if kind is None:
        return
    who = writer(request, resource)
    if not request.dry_run and (fields := _fields_of_flat(kind, resource, obj)) is not None:
        if fields == _NOTHING:
            return
        head = {"manager": who.manager, "operation": who.operation, "apiVersion": who.api_version, "time": who.time}
        obj["metadata"]["managedFields"] = [{**head, "fieldsType": "FieldsV1", "fieldsV1": fields}]
        return
    entries = ownership.current(obj, kind.blank, whole=True)
    put(obj, ownership.updated(kind, kind.blank, obj, entries, who))


def _fields_of_flat(kind: Kind, resource: Resource, obj: Object) -> msgspec.Raw | None:
    """Return what the creator of *obj* owns, as JSON, if the object is flat: nothing in it is owned in parts.

    Events come by the thousand and in few forms, so this is remembered by the names that are set.
    """
    metadata = obj["metadata"]
    if "managedFields" in metadata or "ownerReferences" in metadata or "finalizers" in metadata:
        return None
    parted = _parted(resource)
    if not parted.isdisjoint(obj) and any(obj.get(name) for name in parted):
        return None
    blank = kind.blank
    names = tuple([name for name, value in obj.items() if value or name not in blank])
    form = (names, *metadata, None, *(metadata.get("labels") or ()), None, *(metadata.get("annotations") or ()))
    known = _flat.get((resource, form))
    if known is None:
        if len(_flat) >= _FLAT_LIMIT:
            _flat.clear()
        fields, _ = fieldsets.added(obj, kind.blank, kind.shape)
        known = _flat[resource, form] = msgspec.Raw(objects.encode(fieldsets.encode(fields)))
    return known


@lru_cache(maxsize=256)
def _parted(resource: Resource) -> frozenset[str]:
    """Return the members of *resource* whose parts may have different owners, metadata aside."""
    shape = schema.of(resource.api_version, resource.kind)
    members = shape.members.items() if shape is not None else ()
    return frozenset(name for name, member in members if not member.leaf and name != "metadata")


def track_update(request: Request, resource: Resource, new: Object, old: Object) -> None:
    """Record that the sender owns what differs between *old* and *new*."""
    subresource = request.info.subresource
    kind = kind_of(resource, subresource)
    if kind is None:
        return
    entries = ownership.current(new, old, whole=not subresource)
    if not entries:  # nobody was told from the start: only applying begins that later
        put(new, [])
        return
    put(new, ownership.updated(kind, old, new, entries, writer(request, resource)))


def put(obj: Object, entries: list[Entry]) -> None:
    """Write *entries* into *obj*."""
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    if entries:
        metadata["managedFields"] = ownership.write(entries)


def apply_to(
    request: Request, resource: Resource, kind: Kind, live: Object, config: Object, *, force: bool
) -> tuple[Object, list[Entry]]:
    """Return *live* with *config* applied by the sender, and the entries then.

    :raises ApiError: 409, others own what would change; 500, *config* cannot be merged.
    """
    entries = ownership.current(live, live, whole=True)
    if not entries and live is not kind.blank:
        entries = [ownership.before_first_apply(kind, live)]
    who = writer(request, resource, APPLY)
    claimed = _last_applied(live) if who.manager == _CLIENT else None
    return ownership.applied(kind, live, config, entries, who, force=force, claimed=claimed)


def _last_applied(live: Object) -> Object | None:
    """Return what kubectl applied by itself the last time: going over to applying here is no conflict with that."""
    text = (live["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
    try:
        found = objects.decode(text.encode()) if text else None
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("metadata"), dict) else None


@lru_cache(maxsize=256)
def kind_of(resource: Resource, subresource: str) -> Kind | None:
    """Return what ownership must know about *resource* as seen through *subresource*."""
    shape = schema.of(resource.api_version, resource.kind)
    if shape is None:
        return None
    blank: Object = {"metadata": {}, **shape.blank()}
    reset: tuple[str, ...] = ()
    if resource.subresource("status") is not None:
        reset = ("spec",) if subresource == "status" else ("status",)
    paths = tuple(tuple(field.split(".")) for field in resource.reset_fields.get(subresource, reset))
    return Kind(shape, resource.api_version, resource.member_names, blank, paths)


@lru_cache(maxsize=512)
def _from_agent(agent: str) -> str:
    name = "".join(character for character in agent.partition("/")[0] if character.isprintable())
    while len(name.encode()) > _MANAGER_LIMIT:
        name = name[:-1]
    return name or "unknown"
