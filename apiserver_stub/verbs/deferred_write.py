"""Writes with an asynchronous decision, which may call webhooks or authorizers, or write other objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from apiserver_stub.storage import Outcome, Record, Remove, Store
from apiserver_stub.storage.record import with_revision

Plan = Callable[[Record | None], Awaitable[Outcome]]


class _ConcurrentWrite(Exception):
    """The record is not the one for which the plan was made."""

    def __init__(self, current: Record | None) -> None:
        super().__init__()
        self.current = current


async def write(store: Store, collection: str, key: str, plan: Plan) -> Record:
    """Apply the outcome of *plan* for the current record and return the record once it is durable.

    If the record changes concurrently, *plan* is called again; its exceptions are propagated. A record that another
    server may have replaced is not read again before the write, which compares its revision, but before an exception
    is propagated. A removed record is returned with its previous revision, as clients expect an updated object.

    :raises StoreUnavailable: the write could not be made durable.
    """
    is_certain = not store.is_shared(collection)
    current = await current_record(store, collection, key) if is_certain else store.collection(collection).get(key)
    while True:
        try:
            outcome = await plan(current)
        except Exception:
            if is_certain:
                raise
            planned, current, is_certain = current, await current_record(store, collection, key), True
            if _revision(current) == _revision(planned):
                raise
            continue
        try:
            record = await store.update(collection, key, _only_for(current, outcome))
        except _ConcurrentWrite as conflict:
            current, is_certain = conflict.current, True
            continue
        if isinstance(outcome, Remove) and current is not None:
            return Record(key, current.revision, with_revision(outcome.data, current.revision))
        return record


async def current_record(store: Store, collection: str, key: str) -> Record | None:
    """Return the record that the next write would replace, even if it is not durable yet."""

    def read(current: Record | None) -> Outcome:
        raise _ConcurrentWrite(current)

    try:
        await store.update(collection, key, read)
    except _ConcurrentWrite as conflict:
        return conflict.current
    raise AssertionError("unreachable")


def _only_for(planned: Record | None, outcome: Outcome) -> Callable[[Record | None], Outcome]:
    def decide(current: Record | None) -> Outcome:
        if _revision(current) != _revision(planned):
            raise _ConcurrentWrite(current)
        return outcome

    return decide


def _revision(record: Record | None) -> int:
    return record.revision if record is not None else 0
