"""Namespace deletion: delete the contents of terminating namespaces, then the namespaces.

Pods are deleted first and the other objects once there are none, because network policies restrict the remaining pods.
Pods that are assigned to a node are deleted gracefully, so the deletion takes as long as the slowest pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.internal_requests import delete_admitted
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.namespace_conditions import RemainingContents, merged_conditions
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from apiserver_stub.verbs.delete import FOREGROUND, ORPHAN
from nodeagent.base.aio import Clock, SystemClock

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext
    from nodeagent.base.identity import Identity

_NAMESPACES, _PODS = "core/namespaces", "core/pods"
_NAME = "namespace-controller"
_AT_ONCE = 50
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 15.0
_CONDITIONS_SECONDS = 2.0
"""Minimum time between two updates of the conditions of a namespace, whose contents may be removed one by one."""
_OPTIONS: Object = {
    "gracePeriodSeconds": None,
    "preconditions": {},
    "dryRun": False,
    # Foreground deletion and orphaning would keep objects for dependents that are deleted anyway.
    "propagationPolicy": "Background",
}


async def run_namespace_deletion(context: VerbContext, registry: Registry, identity: Identity) -> None:
    """Run the namespace deletion controller until cancelled."""
    await NamespaceDeletion(context, registry, identity).run()


class NamespaceDeletion:
    """Controller of terminating namespaces.

    While a kube-controller-manager runs, it sets the conditions instead of this controller.
    """

    def __init__(
        self, context: VerbContext, registry: Registry, identity: Identity, clock: Clock | None = None
    ) -> None:
        self._context, self._registry, self._identity = context, registry, identity
        self._clock = clock or SystemClock()
        self._resources: dict[str, Resource] = {}
        self._feed: ChangeFeed | None = None
        self._read_registry()
        self._queue: WorkQueue[str] = WorkQueue("namespace-deletion", self._clock, interval_seconds=_PAUSE_SECONDS)
        self._terminating: set[str] = set()
        self._updated: dict[str, float] = {}
        """Namespace → time of the last update of its conditions."""

    async def run(self) -> None:
        with self._registry.listening(self._read_registry):
            self._feed = ChangeFeed(self._context.store, [_NAMESPACES, *self._resources], self)
            await run_controller(self._feed, self._queue, self._process)

    def _read_registry(self) -> None:
        """Follow the resources that are served now."""
        found = [item for item in self._registry if item.namespaced and "delete" in item.verbs]
        self._resources = {item.storage: item for item in reversed(found)}
        self._resources = {item.storage: self._resources[item.storage] for item in found}
        if self._feed is not None:
            self._feed.follow(self._context.store.collection(name) for name in self._resources)

    def reset(self) -> None:
        self._terminating.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection != _NAMESPACES:
            if previous is None:
                self._queue_terminating(record.key.partition("/")[0])
        elif _is_deleted(record):
            self._terminating.add(record.key)
            self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        if collection == _NAMESPACES:
            self._terminating.discard(record.key)
            self._updated.pop(record.key, None)
        else:
            self._queue_terminating(record.key.partition("/")[0])

    def _queue_terminating(self, namespace: str) -> None:
        if namespace in self._terminating:
            self._queue.add(namespace)

    async def _process(self, namespace: str) -> None:
        record = self._context.store.collection(_NAMESPACES).get(namespace)
        if record is None or not _is_deleted(record):
            return
        errors = [error for resource in self._due(namespace) if (error := await self._delete_all(resource, namespace))]
        remains = any(self._contents(resource, namespace) for resource in self._resources.values())
        if errors or remains:
            await self._show_conditions(namespace, errors)
        if errors:
            raise errors[0]
        if remains:
            self._queue.add_after(namespace, _RETRY_SECONDS)  # A fallback: deletions queue the namespace.
        else:
            await self._finalize(namespace)

    def _due(self, namespace: str) -> Iterator[Resource]:
        """Yield the resources to delete, the others only after the last pod."""
        pods = self._resources.get(_PODS)
        if pods is not None:
            yield pods
            if self._contents(pods, namespace):
                return
        yield from (resource for resource in self._resources.values() if resource is not pods)

    def _contents(self, resource: Resource, namespace: str) -> int:
        return len(self._context.store.collection(resource.storage).view(f"{namespace}/"))

    async def _delete_all(self, resource: Resource, namespace: str) -> ApiError | None:
        """Delete the objects of *resource* and return the first error."""
        found: ApiError | None = None
        records = self._context.store.collection(resource.storage).select(f"{namespace}/")
        for start in range(0, len(records), _AT_ONCE):
            due = [record for record in records[start : start + _AT_ONCE] if not _waits(record)]
            results = await asyncio.gather(*(self._delete(resource, record) for record in due), return_exceptions=True)
            await asyncio.sleep(0)
            for result in results:
                if isinstance(result, ApiError):
                    if result.code != 404:
                        found = found or result
                elif isinstance(result, BaseException):
                    raise result
        return found

    async def _delete(self, resource: Resource, record: Record) -> None:
        await delete_admitted(self._context, resource, record.key, dict(_OPTIONS), self._identity, _NAME)

    async def _remaining(self, namespace: str, errors: Sequence[ApiError]) -> RemainingContents:
        found = RemainingContents()
        found.errors = [error.message for error in errors]
        for resource in self._resources.values():
            records = self._context.store.collection(resource.storage).select(f"{namespace}/")
            for number, record in enumerate(records):
                found.resources[f"{resource.plural}.{resource.group}"] += 1
                if b'"finalizers"' in record.data:
                    found.finalizers.update(objects.decode(record.data)["metadata"].get("finalizers") or ())
                if number % _AT_ONCE == _AT_ONCE - 1:
                    await asyncio.sleep(0)
        return found

    async def _show_conditions(self, namespace: str, errors: Sequence[ApiError]) -> None:
        """Set the conditions of *namespace*, now or later.

        :param errors: one error per resource whose objects could not be deleted.
        """
        if is_held(self._context.store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            return
        pause = self._updated.get(namespace, -_CONDITIONS_SECONDS) + _CONDITIONS_SECONDS - self._clock.now()
        if pause > 0:
            self._queue.add_after(namespace, pause)
            return
        remaining = await self._remaining(namespace, errors)

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(namespace)
            obj: Object = objects.decode(current.data)
            before = (obj.get("status") or {}).get("conditions")
            conditions = merged_conditions(before or (), remaining.conditions())
            if conditions == before:
                return Keep()
            self._updated[namespace] = self._clock.now()
            obj["status"] = {**(obj.get("status") or {}), "conditions": conditions}
            return Put(objects.encode_for_store(obj))

        with contextlib.suppress(LookupError):  # Deleted by another server of the same store.
            await self._context.store.update(_NAMESPACES, namespace, decide)

    async def _finalize(self, namespace: str) -> None:
        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(namespace)
            obj: Object = objects.decode(current.data)
            spec = obj.setdefault("spec", {})  # A shared store may hold protobuf, which omits empty lists.
            before = spec.get("finalizers") or []
            finalizers = spec["finalizers"] = [name for name in before if name != "kubernetes"]
            if not finalizers and not obj["metadata"].get("finalizers"):
                return Remove(objects.encode_for_store(obj))
            status: Object = obj.get("status") or {}
            conditions = merged_conditions(status.get("conditions") or (), RemainingContents().conditions())
            if finalizers == before and conditions == status.get("conditions"):
                return Keep()
            obj["status"] = {**status, "conditions": conditions}
            return Put(objects.encode_for_store(obj))

        with contextlib.suppress(LookupError):  # Deleted by another server of the same store.
            await self._context.store.update(_NAMESPACES, namespace, decide)


def _is_deleted(record: Record) -> bool:
    return b'"deletionTimestamp"' in record.data and "deletionTimestamp" in objects.decode(record.data)["metadata"]


def _waits(record: Record) -> bool:
    """Return whether the object is already being deleted and another deletion would have no effect."""
    if b'"deletionTimestamp"' not in record.data:
        return False
    metadata = objects.decode(record.data)["metadata"]
    finalizers = metadata.get("finalizers") or ()
    return "deletionTimestamp" in metadata and FOREGROUND not in finalizers and ORPHAN not in finalizers
