"""Object store that lists and watches each referenced object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from nodeagent.base.aio import Clock, TaskOwner
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.api import Api, Resource, WatchEvent, WatchType
from nodeagent.contracts.list_watch import follow
from nodeagent.errors import ApiUnavailable
from nodeagent_plugins.object_reader.first_read import FirstRead
from nodeagent_plugins.object_reader.stores import Key, PlainObject, fetch, slim

REFRESH_SECONDS = 1.0
"""Limit of the wait for an object that was read before; afterwards readers get the one from then."""
WATCH_PATIENCE_SECONDS = 5.0
"""Time for which the rate limit prefers other requests to watches: pods wait for reads and status updates."""
_SWEEP_SECONDS = 60.0


class _Item(MutableStruct):
    first_read: FirstRead
    pods: int = 0
    object: PlainObject | None = None
    missed: bool = False
    """A reader got an error, as the object has not been read."""
    seen: bool = False
    """``object`` has been read, possibly long ago."""
    task: asyncio.Task[None] | None = None
    used_at: float = 0.0
    frozen: bool = False
    """The object is immutable, so it needs no watch."""


class WatchingStore:
    """Store with one watch per object, which keeps the object current.

    A watch without reads for *idle_seconds* is stopped and restarted by the next read; that of an immutable object is
    stopped immediately. Objects that no pod references are read directly.

    :param changed: called when an object that was read before has changed, was created or deleted, and when one has
        been read of which a reader got an error before.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        clock: Clock,
        tasks: TaskOwner,
        idle_seconds: float,
        changed: Callable[[Key], None],
    ) -> None:
        self._changed = changed
        self._api, self._resource, self._clock, self._tasks = api, resource, clock, tasks
        self._idle_seconds = idle_seconds
        self._items: dict[Key, _Item] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def add(self, key: Key) -> None:
        item = self._items.setdefault(key, _Item(FirstRead(self._clock)))
        item.pods += 1
        self._use(key, item)

    def remove(self, key: Key) -> None:
        item = self._items.get(key)
        if item is None:
            return
        item.pods -= 1
        if item.pods <= 0:
            _stop(item)
            del self._items[key]

    async def get(self, key: Key) -> PlainObject | None:
        """Return the object as last observed; waits for a watch that has just started.

        :raises ApiUnavailable: the object has never been observed.
        """
        item = self._items.get(key)
        if item is None:
            return await fetch(self._api, self._resource, key)
        self._use(key, item)
        if item.first_read.done:
            return item.object
        if item.seen:
            with contextlib.suppress(ApiUnavailable):
                await item.first_read.wait(REFRESH_SECONDS, retry_seconds=0)
            return item.object
        try:
            await item.first_read.wait()
        except ApiUnavailable as error:
            item.missed = True
            description = f'{self._resource.kind.lower()} "{"/".join(key)}"'
            raise ApiUnavailable(f"{description} has not been read from the API server yet: {error}") from None
        return item.object

    def _use(self, key: Key, item: _Item) -> None:
        item.used_at = self._clock.now()
        if item.task is None and not item.frozen:
            item.first_read.restart()  # The object may be outdated after an idle time.
            item.task = self._tasks.start(self._follow(key, item), f"watch/{self._resource.plural}/{'/'.join(key)}")
        if self._sweeper is None:
            self._sweeper = self._tasks.start(self._sweep(), f"sweep/{self._resource.plural}")

    async def _follow(self, key: Key, item: _Item) -> None:
        def listed(objects: list[PlainObject]) -> None:
            self._set(key, item, objects[0] if objects else None)

        def changed(event: WatchEvent[dict[str, Any]]) -> None:
            self._set(key, item, None if event.type is WatchType.DELETED else event.object)

        namespace, name = key
        await follow(
            self._api,
            self._resource,
            namespace,
            clock=self._clock,
            field_selector=f"metadata.name={name}",
            listed=listed,
            changed=changed,
            failed=item.first_read.fail,
            watch_patience_seconds=WATCH_PATIENCE_SECONDS,
        )

    def _set(self, key: Key, item: _Item, obj: PlainObject | None) -> None:
        before, seen, missed = item.object, item.seen, item.missed
        item.object = slim(obj) if obj is not None else None
        item.seen, item.missed = True, False
        item.first_read.succeed()
        if obj is not None and obj.get("immutable"):
            item.frozen = True
            _stop(item)
        if missed or (seen and before != item.object):
            self._changed(key)

    async def _sweep(self) -> None:
        """Stop watches without reads."""
        while True:
            await self._clock.sleep(_SWEEP_SECONDS)
            limit = self._clock.now() - self._idle_seconds
            for item in self._items.values():
                if item.used_at <= limit:
                    _stop(item)


def _stop(item: _Item) -> None:
    if item.task is not None:
        item.task.cancel()
        item.task = None
