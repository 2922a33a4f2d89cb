"""Cleanup of custom resources: delete the custom resources of a deleted definition, then the definition."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds.custom_resource_definitions import condition, is_true, set_condition
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.verbs.delete import remove
from nodeagent.base.aio import Clock, SystemClock

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext

_AT_ONCE = 50
_POLL_SECONDS = 1.0
_REPORT_SECONDS = 60.0
"""Time after which resources that are not deleted yet are reported in the condition."""
_IN_PROGRESS = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
_NEVER_ESTABLISHED = ("False", "NeverEstablished", "resource was never established")
_COMPLETED = ("False", "InstanceDeletionCompleted", "removed all instances")
_REMAINING = (
    "True",
    "InstanceDeletionCheck",
    "could not confirm zero CustomResources remaining: timed out waiting for the condition",
)
_OPTIONS: Object = {
    "gracePeriodSeconds": None,
    "preconditions": {},
    "dryRun": False,
    "propagationPolicy": None,
}


class CustomResourceCleanup:
    """Controller of deleted definitions.

    :param collection: the collection of definitions.
    :param finalizer: keeps a definition until its custom resources are deleted.
    """

    def __init__(
        self, context: VerbContext, registry: Registry, collection: str, finalizer: str, clock: Clock | None = None
    ) -> None:
        self._context, self._registry = context, registry
        self._collection, self._finalizer = collection, finalizer
        self._clock = clock or SystemClock()
        self._queue: WorkQueue[str] = WorkQueue("custom-resource-cleanup", clock)
        self._started: dict[str, float] = {}
        """Time when the cleanup of a definition started."""

    async def run(self) -> None:
        """Run until cancelled."""
        feed = ChangeFeed(self._context.store, [self._collection], self)
        await run_controller(feed, self._queue, self._process)

    def reset(self) -> None:
        self._started.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if b'"deletionTimestamp"' in record.data:
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        self._started.pop(record.key, None)

    async def _process(self, name: str) -> None:
        record = self._context.store.collection(self._collection).get(name)
        if record is None:
            return
        definition: Object = objects.decode(record.data)
        if not self._is_due(definition):
            return
        started = self._started.setdefault(name, self._clock.now())
        if condition(definition, "Terminating").get("reason") not in (_IN_PROGRESS[1], _REMAINING[1]):
            await self._update(name, lambda obj: set_condition(obj, "Terminating", *_IN_PROGRESS))
        if not is_true(definition, "Established"):
            await self._finish(name, _NEVER_ESTABLISHED)
        elif not await self._delete_instances(definition):
            await self._finish(name, _COMPLETED)
        else:
            if self._clock.now() - started >= _REPORT_SECONDS:
                await self._update(name, lambda obj: set_condition(obj, "Terminating", *_REMAINING))
            self._queue.add_after(name, _POLL_SECONDS)

    def _is_due(self, definition: Object) -> bool:
        metadata = definition["metadata"]
        return "deletionTimestamp" in metadata and self._finalizer in (metadata.get("finalizers") or ())

    async def _delete_instances(self, definition: Object) -> int:
        """Delete the custom resources of *definition*; return the number of those that remain.

        :raises ApiError: a resource cannot be deleted.
        """
        resource = self._resource_of(definition)
        if resource is None:
            return 0
        collection = self._context.store.collection(resource.storage)
        records = [record for record in collection.select() if b'"deletionTimestamp"' not in record.data]
        for start in range(0, len(records), _AT_ONCE):
            batch = records[start : start + _AT_ONCE]
            await asyncio.gather(*(self._delete(resource, record) for record in batch))
            await asyncio.sleep(0)
        return len(collection)

    def _resource_of(self, definition: Object) -> Resource | None:
        spec = definition["spec"]
        found = (self._registry.find(spec["group"], item["name"], spec["names"]["plural"]) for item in spec["versions"])
        return next((resource for resource in found if resource is not None), None)

    async def _delete(self, resource: Resource, record: Record) -> None:
        try:
            await remove(self._context, resource, record.key, record.key.rpartition("/")[2], dict(_OPTIONS))
        except ApiError as error:
            if error.code != 404:
                raise

    async def _finish(self, name: str, state: tuple[str, str, str]) -> None:
        """Report *state*, and remove the finalizer of the definition."""

        def change(obj: Object) -> None:
            set_condition(obj, "Terminating", *state)
            metadata = obj["metadata"]
            metadata["finalizers"] = [item for item in metadata.get("finalizers") or () if item != self._finalizer]
            if not metadata["finalizers"]:
                del metadata["finalizers"]

        await self._update(name, change)

    async def _update(self, name: str, change: Callable[[Object], None]) -> None:
        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(name)
            obj: Object = objects.decode(current.data)
            if not self._is_due(obj):
                raise LookupError(name)
            before = objects.encode(obj)
            change(obj)
            if objects.encode(obj) == before:
                return Keep()
            data = objects.encode_for_store(obj)
            return Put(data) if obj["metadata"].get("finalizers") else Remove(data)

        with contextlib.suppress(LookupError):  # Deleted since it was queued.
            await self._context.store.update(self._collection, name, decide)
