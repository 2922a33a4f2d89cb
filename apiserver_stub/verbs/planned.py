"""Writes whose decision may have to wait for others: for webhooks, for authorizers, for another write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from apiserver_stub.storage import Outcome, Record, Remove, Store
from apiserver_stub.storage.record import with_revision

Plan = Callable[[Record | None], Awaitable[Outcome]]


class _Moved(Exception):
    """The record is another one than the plan was made for."""

    def __init__(self, current: Record | None) -> None:
        super().__init__()
        self.current = current


async def write(store: Store, collection: str, key: str, plan: Plan) -> Record:
    """Apply the outcome of *plan* for the current record and return the record once it is durable.

    A record that changed concurrently is planned for again; exceptions of the plan are propagated. A record that the
    plan removes keeps its revision, as clients expect an updated object.

    :raises StoreUnavailable: the write could not be made durable.
    """
    current = await _look(store, collection, key)
    while True:
        outcome = await plan(current)
        try:
            record = await store.update(collection, key, _only_for(current, outcome))
        except _Moved as moved:
            current = moved.current
            continue
        if isinstance(outcome, Remove) and current is not None:
            return Record(key, current.revision, with_revision(outcome.data, current.revision))
        return record


async def _look(store: Store, collection: str, key: str) -> Record | None:
    """Return what the next write would find, also when that is not durable yet."""

    def show(current: Record | None) -> Outcome:
        raise _Moved(current)

    try:
        await store.update(collection, key, show)
    except _Moved as moved:
        return moved.current
    raise AssertionError("unreachable")


def _only_for(planned: Record | None, outcome: Outcome) -> Callable[[Record | None], Outcome]:
    revision = planned.revision if planned is not None else 0

    def decide(current: Record | None) -> Outcome:
        if (current.revision if current is not None else 0) != revision:
            raise _Moved(current)
        return outcome

    return decide
