"""Versions of stored objects: the requested one after each read, the storage version before each write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.storage import Change, Keep, Outcome, Put, Record, Store
from apiserver_stub.storage.record import with_revision, without_revision
from apiserver_stub.verbs.deferred_write import Plan
from apiserver_stub.verbs.deferred_write import write as write_as_stored
from nodeagent.base import tracing

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource

_BATCH_BYTES = 2 << 20
"""Size of the objects that one conversion has at most, unless a single one is larger."""


async def records(resource: Resource, found: Sequence[Record]) -> Sequence[Record]:
    """Return *found* in the version of *resource*.

    :raises ApiError: 500, the conversion failed.
    """
    if resource.converter is None:
        return found
    result, others = (
        list(found),
        [position for position, record in enumerate(found) if not record.data.startswith(resource.head)],
    )
    for batch in _batches(others, found):
        old = [objects.decode(found[position].data) for position in batch]
        for position, obj in zip(batch, await resource.converter.convert(old, resource.api_version), strict=True):
            revision = int(obj["metadata"]["resourceVersion"])
            result[position] = Record(
                found[position].key, found[position].revision, with_revision(objects.encode_for_store(obj), revision)
            )
    return result


def _batches(positions: list[int], found: Sequence[Record]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for position in positions:
        length = len(found[position].data)
        if batch and size + length > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(position)
        size += length
    if batch:
        yield batch


async def record(resource: Resource, found: Record) -> Record:
    """Return *found* in the version of *resource*.

    :raises ApiError: 500, the conversion failed.
    """
    return found if resource.converter is None else (await records(resource, [found]))[0]


async def document(resource: Resource, obj: Object) -> Object:
    """Return the decoded *obj* in the version of *resource*.

    :raises ApiError: 500, the conversion failed.
    """
    if resource.converter is None or obj["apiVersion"] == resource.api_version:
        return obj
    return (await resource.converter.convert([obj], resource.api_version))[0]


async def changes(resource: Resource, found: Sequence[Change], *, previous: bool) -> Sequence[Change]:
    """Return *found* in the version of *resource*.

    :param previous: include the previous records.
    :raises ApiError: 500, the conversion failed.
    """
    if resource.converter is None:
        return found
    both = [(change.record, change.previous if previous else None) for change in found]
    converted = iter(await records(resource, [item for pair in both for item in pair if item is not None]))
    result = []
    for change, pair in zip(found, both, strict=True):
        now, before = next(converted), next(converted) if pair[1] is not None else None
        same = (now, before) == pair  # Watches share what they derive from an unchanged one.
        result.append(change if same else Change(change.type, now, before))
    return result


async def write(store: Store, resource: Resource, key: str, plan: Plan) -> Record:
    """Apply the outcome of *plan* as :func:`deferred_write.write`, with all records in the version of *resource*.

    :raises ApiError: 500, the conversion failed.
    :raises StoreUnavailable: the write could not be made durable.
    """
    return await tracing.during("GuaranteedUpdate etcd3", _write(store, resource, key, plan), _stored_at, resource, key)


def create(store: Store, resource: Resource, key: str, decide: Callable[[Record | None], Outcome]) -> Awaitable[Record]:
    """Apply the outcome of *decide*, as :func:`write` does."""

    async def plan(current: Record | None) -> Outcome:
        return decide(current)

    converted = resource.converter is not None
    work = _write(store, resource, key, plan) if converted else store.update(resource.storage, key, decide)
    return tracing.during("Create etcd3", work, _stored_at, resource, key)


async def _write(store: Store, resource: Resource, key: str, plan: Plan) -> Record:
    converter = resource.converter
    if converter is None:
        return await write_as_stored(store, resource.storage, key, plan)

    async def convert(current: Record | None) -> Outcome:
        local = None if current is None else await record(resource, current)
        outcome = await plan(local)
        if isinstance(outcome, Keep):
            if current is None or local is None or current.data.startswith(resource.storage_head):
                return outcome
            outcome = Put(without_revision(local.data), outcome.ttl_seconds)  # A write moves to the storage version.
        if outcome.data.startswith(resource.storage_head):
            return outcome
        (obj,) = await converter.convert([objects.decode(outcome.data)], resource.storage_version)
        return replace(outcome, data=objects.encode_for_store(obj))

    return await record(resource, await write_as_stored(store, resource.storage, key, convert))


def _stored_at(resource: Resource, key: str) -> tracing.Attributes:
    """Return the attributes of the span of a write."""
    return {
        "key": f"/{resource.plural}/{key}",
        "type": resource.kind,
        "resource": qualified(resource.plural, resource.group),
    }
