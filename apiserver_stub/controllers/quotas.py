"""Resource quota controller: maintain the status of quotas when objects are deleted, terminate or change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.admission.quota.shared_charges import CHARGES, charges_in
from apiserver_stub.admission.quota.usage_tracker import COLLECTION, MEASURED_COLLECTIONS, QuotaUsageTracker
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Record
from nodeagent.base.aio import Clock

if TYPE_CHECKING:
    from apiserver_stub.controllers.leadership import Leadership
    from apiserver_stub.storage import Store

_PAUSE_SECONDS = 0.2


async def run_quota_controller(store: Store, usage: QuotaUsageTracker, leadership: Leadership) -> None:
    """Run the resource quota controller until cancelled."""
    await ResourceQuotas(store, usage, leadership).run()


class ResourceQuotas:
    """Controller of the status of quotas; changes in namespaces without a quota are ignored.

    With several servers, only the leader recounts; the others follow the changes for their caches, and recount the
    quotas that have changed if they become the leader.
    """

    def __init__(
        self, store: Store, usage: QuotaUsageTracker, leadership: Leadership, clock: Clock | None = None
    ) -> None:
        self._store, self._usage, self._leadership = store, usage, leadership
        self._queue: WorkQueue[str] = WorkQueue("resource-quotas", clock, interval_seconds=_PAUSE_SECONDS)
        self._quotas: dict[str, dict[str, None]] = {}

    async def run(self) -> None:
        self._usage.on_freed = self._queue.add
        names = [COLLECTION, CHARGES, *(set(self._usage.collections) - {COLLECTION})]
        feed = ChangeFeed(self._store, names, self)
        self._usage.on_tracked = lambda: feed.follow(map(self._store.collection, self._usage.collections))
        try:
            await run_controller(feed, self._queue, self._process)
        finally:
            self._usage.on_freed = self._usage.on_tracked = None

    def reset(self) -> None:
        self._quotas.clear()
        self._usage.drop_all()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == CHARGES:
            if previous is not None:
                self._queue_charged(previous)
            return
        namespace = record.key.partition("/")[0]
        if collection == COLLECTION:
            self._quotas.setdefault(namespace, {})[record.key] = None
            self._queue.add(record.key)
        if previous is None or collection in MEASURED_COLLECTIONS:
            self._queue_quotas_of(namespace)

    def remove(self, collection: str, record: Record) -> None:
        if collection == CHARGES:
            self._queue_charged(record)
            return
        namespace = record.key.partition("/")[0]
        self._usage.drop(collection, record.key)
        if collection == COLLECTION:
            quotas = self._quotas.get(namespace, {})
            quotas.pop(record.key, None)
            if not quotas:
                self._quotas.pop(namespace, None)
        self._queue_quotas_of(namespace)

    def _queue_quotas_of(self, namespace: str) -> None:
        for key in self._quotas.get(namespace, ()):
            self._queue.add(key)

    def _queue_charged(self, record: Record) -> None:
        """Queue the quotas to which a server had charged requests that may have ended."""
        for key in {key for key, _ in charges_in(record)}:
            self._queue.add(key)

    async def _process(self, key: str) -> None:
        await self._leadership.until_leading()
        await self._usage.read_ahead(key.partition("/")[0])
        await self._usage.recount(key)
