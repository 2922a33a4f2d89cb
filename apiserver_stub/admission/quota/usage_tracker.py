"""Quota usage tracker: usage of stored objects, and reservations for objects that are not stored yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec import field

from apiserver_stub.admission.quota.shared_charges import SharedCharges
from apiserver_stub.admission.quota.usage import MEASURED, QuotaNames, concerned, in_scope, scopes, usage
from apiserver_stub.apimachinery import objects, resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store, StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import MutableStruct

COLLECTION = "core/resourcequotas"
MEASURED_COLLECTIONS = frozenset(f"core/{plural}" for plural in MEASURED)
_IGNORED = frozenset(["events"])
_STEP = 200
_TRIES = 10


class OutdatedRead(Exception):
    """The quota is newer than the state in memory from which its usage would be counted."""


class _Measured(MutableStruct):
    """Cached usage of one stored object: avoids decoding the object for every count."""

    revision: int
    usage: Amounts
    in_scope: dict[str, bool] = field(default_factory=dict)


class QuotaUsageTracker:
    """Usage of the quotas of all namespaces."""

    def __init__(self, store: Store, registry: Registry, identity: Identity) -> None:
        self.store, self.names = store, QuotaNames.of(identity)
        self.on_freed: Callable[[str], None] | None = None
        """Callback with the key of a quota whose reservation is released: an earlier count can now be too high."""
        self.on_tracked: Callable[[], None] | None = None
        """Callback when the resources that quotas can limit change."""
        self._measured: dict[tuple[str, str], _Measured] = {}
        self._reserved: dict[tuple[str, str], list[Amounts]] = {}
        self._shared: SharedCharges | None = None
        self._registry = registry
        self._tracked: dict[str, Resource] = {}
        self._read_registry()
        registry.listen(self._read_registry)

    def _read_registry(self) -> None:
        tracked: dict[str, Resource] = {}
        for resource in self._registry:
            stored = resource.namespaced and "create" in resource.verbs and "list" in resource.verbs
            if stored and resource.plural not in _IGNORED:
                tracked.setdefault(qualified(resource.plural, resource.group), resource)
        self._tracked = tracked
        if self.on_tracked is not None:
            self.on_tracked()

    @property
    def collections(self) -> list[str]:
        """Return the collections whose objects quotas can limit."""
        return sorted({resource.storage for resource in self._tracked.values()})

    def tracks(self, label: str) -> bool:
        return label in self._tracked

    def quotas(self, namespace: str) -> list[Object]:
        """Return the quotas of *namespace*."""
        return [objects.decode(record.data) for record in self.store.collection(COLLECTION).select(f"{namespace}/")]

    def count(self, quota: Object, *, without: Amounts | None = None) -> Amounts:
        """Return the usage of each limited name: stored objects and reservations, except the reservation *without*.

        Requests of other servers whose objects are not stored yet keep the usage in the status of *quota* from being
        lowered below their reservations; it is not raised by them, since they may not have charged the quota yet.

        :raises OutdatedRead: with several servers, *quota* is not the state in memory.
        """
        key = _key(quota)
        elsewhere = self._reserved_elsewhere(quota)
        if self._shared is not None:
            seen = self.store.collection(COLLECTION).get(objects.key_of(*key))
            if seen is None or str(seen.revision) != quota["metadata"].get("resourceVersion"):
                raise OutdatedRead
        total = self._count_stored(quota)
        _add_known(total, [item for item in self._reserved.get(key, ()) if item is not without])
        if elsewhere:
            known, most = resource_lists.read((quota.get("status") or {}).get("used")), dict(total)
            _add_known(most, elsewhere)
            total = {name: max(amount, min(known.get(name, most[name]), most[name])) for name, amount in total.items()}
        return total

    def share(self, charges: SharedCharges) -> None:
        """Exchange reservations with the other servers of the store through *charges*."""
        self._shared = charges

    def announce(self, quota: Object, amounts: Amounts) -> None:
        """Prevent other servers from lowering the usage of *quota* by *amounts* until :meth:`free`."""
        if self._shared is not None:
            self._shared.add(objects.key_of(*_key(quota)), amounts)

    def reserve(self, quota: Object, amounts: Amounts) -> None:
        """Count *amounts* as used until :meth:`free`."""
        reserved = self._reserved.setdefault(_key(quota), [])
        if not any(item is amounts for item in reserved):
            reserved.append(amounts)

    async def update(self, key: str, decide: Callable[[Record | None], Outcome]) -> None:
        """Update the quota at *key* atomically, once other servers see the reservations of this one.

        *decide* may count; it is called again if the state in memory was older than the quota. Its exceptions are
        propagated.

        :raises StoreUnavailable: the quota changes faster than this server receives the changes.
        """
        if self._shared is not None:
            await self._shared.stored()
        for _ in range(_TRIES):
            try:
                await self.store.update(COLLECTION, key, decide)
                return
            except OutdatedRead:
                await self.store.catch_up(COLLECTION)
        raise StoreUnavailable("the quota changes too fast")

    async def refresh(self) -> bool:
        """See what other servers have stored; return whether there are any."""
        if self._shared is not None:
            await self.store.catch_up(COLLECTION)
        return self._shared is not None

    async def may_fit_later(self, quotas: Iterable[Object], requested: Amounts, seconds: float) -> bool:
        """Return whether *requested* may fit into the exceeded *quotas*, once another server has changed its requests.

        It may while other servers process requests without which it fits: they may fail, or have been counted twice.

        :param seconds: time to wait for that change, at most.
        """
        if self._shared is None or seconds <= 0:
            return False
        for quota in quotas:
            hard = resource_lists.read((quota.get("spec") or {}).get("hard"))
            if exceeded(hard, self._count_stored(quota), requested):
                return False
        if any(self._reserved_elsewhere(quota) for quota in quotas):
            await self._shared.next_change(seconds)
            await self.store.catch_up(COLLECTION)
            return True
        return False

    def free(self, quota: Object, amounts: Amounts) -> None:
        """Release a reservation, if there is one: its object has been stored, or the request failed."""
        reserved = [item for item in self._reserved.pop(_key(quota), ()) if item is not amounts]
        if reserved:
            self._reserved[_key(quota)] = reserved
        if self._shared is not None:
            self._shared.remove(amounts)
        if self.on_freed is not None:
            self.on_freed(objects.key_of(*_key(quota)))

    def drop(self, collection: str, key: str) -> None:
        """Evict a deleted object from the cache."""
        self._measured.pop((collection, key), None)

    def drop_all(self) -> None:
        """Clear the cache."""
        self._measured.clear()

    async def read_ahead(self, namespace: str) -> None:
        """Fill the cache for *namespace*, yielding to other tasks periodically."""
        for label in MEASURED & self._tracked.keys():
            resource = self._tracked[label]
            for number, record in enumerate(self.store.collection(resource.storage).select(f"{namespace}/"), 1):
                self._measure(label, resource, record)
                if number % _STEP == 0:
                    await asyncio.sleep(0)

    async def recount(self, key: str) -> None:
        """Write the current usage into the status of the quota at *key*; a missing quota is ignored.

        :raises StoreUnavailable: the status cannot be stored.
        """

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(key)
            quota: Object = objects.decode(current.data)
            hard = (quota.get("spec") or {}).get("hard") or {}
            status = {"hard": hard, "used": resource_lists.write(self.count(quota))}
            if quota.get("status") == status:
                return Keep()
            return Put(objects.encode_for_store({**quota, "status": status}))

        try:
            await self.update(key, decide)
        except LookupError:
            return  # Deleted since the recount was requested.

    def _reserved_elsewhere(self, quota: Object) -> list[Amounts]:
        return [] if self._shared is None else list(self._shared.of_others(objects.key_of(*_key(quota))))

    def _count_stored(self, quota: Object) -> Amounts:
        hard = (quota.get("spec") or {}).get("hard") or {}
        total: Amounts = {name: Quantity() for name in hard}
        for label, resource in self._tracked.items():
            if names := concerned(label, hard, self.names):
                self._add_stored(total, names, label, resource, _key(quota)[0], scopes(quota))
        return total

    def _add_stored(
        self,
        total: Amounts,
        names: Iterable[str],
        label: str,
        resource: Resource,
        namespace: str,
        expressions: list[Object],
    ) -> None:
        records = self.store.collection(resource.storage).view(f"{namespace}/")
        limited = set(names)
        if label not in MEASURED and expressions:
            return  # Only pods have scopes.
        if label not in MEASURED or (limited <= {f"count/{label}"} and not expressions):
            resource_lists.add(total, {name: Quantity(len(records)) for name in limited})
            return
        for record in records:
            measured = self._measure(label, resource, record)
            if all(self._in_scope(measured, label, resource, record, expression) for expression in expressions):
                resource_lists.add(total, {name: measured.usage[name] for name in limited if name in measured.usage})

    def _measure(self, label: str, resource: Resource, record: Record) -> _Measured:
        measured = self._measured.get((resource.storage, record.key))
        if measured is None or measured.revision != record.revision:
            measured = _Measured(record.revision, usage(label, resource.read(record), self.names))
            self._measured[resource.storage, record.key] = measured
        return measured

    @staticmethod
    def _in_scope(measured: _Measured, label: str, resource: Resource, record: Record, expression: Object) -> bool:
        text = repr(expression)
        result = measured.in_scope.get(text)
        if result is None:
            result = measured.in_scope[text] = in_scope(label, resource.read(record), expression)
        return result


def _add_known(total: Amounts, reserved: Iterable[Amounts]) -> None:
    for amounts in reserved:
        resource_lists.add(total, {name: amount for name, amount in amounts.items() if name in total})


def exceeded(hard: Amounts, used: Amounts, requested: Amounts) -> list[str]:
    """Return the names whose limit in *hard* is exceeded if *requested* is added to *used*."""
    return [
        name for name, amount in requested.items() if name in hard and used.get(name, Quantity()) + amount > hard[name]
    ]


def _key(quota: Object) -> tuple[str, str]:
    return quota["metadata"]["namespace"], quota["metadata"]["name"]
