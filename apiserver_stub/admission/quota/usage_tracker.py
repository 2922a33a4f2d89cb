"""Quota usage tracker: usage of stored objects, and reservations for objects that are not stored yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from msgspec import field

from apiserver_stub.admission.quota.usage import MEASURED, QuotaNames, concerned, in_scope, scopes, usage
from apiserver_stub.apimachinery import objects, resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from nodeagent.base.structs import MutableStruct

COLLECTION = "core/resourcequotas"
MEASURED_COLLECTIONS = frozenset(f"core/{plural}" for plural in MEASURED)
_IGNORED = frozenset(["events"])
_STEP = 200


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
        """Return the usage of each limited name: stored objects and reservations, except the reservation *without*."""
        metadata = quota["metadata"]
        namespace, hard = metadata["namespace"], (quota.get("spec") or {}).get("hard") or {}
        total: Amounts = {name: Quantity() for name in hard}
        expressions = scopes(quota)
        for label, resource in self._tracked.items():
            if names := concerned(label, hard, self.names):
                self._add_stored(total, names, label, resource, namespace, expressions)
        for amounts in self._reserved.get((namespace, metadata["name"]), ()):
            if amounts is not without:
                resource_lists.add(total, {name: amount for name, amount in amounts.items() if name in hard})
        return total

    def reserve(self, quota: Object, amounts: Amounts) -> None:
        """Count *amounts* as used until :meth:`free`."""
        self._reserved.setdefault(_key(quota), []).append(amounts)

    def free(self, quota: Object, amounts: Amounts) -> None:
        """Release a reservation: its object has been stored, or the request failed."""
        reserved = self._reserved[_key(quota)]
        reserved[:] = [item for item in reserved if item is not amounts]
        if not reserved:
            del self._reserved[_key(quota)]
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
        """Write the current usage into the status of the quota at *key*; a missing quota is ignored."""

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
            await self.store.update(COLLECTION, key, decide)
        except LookupError:
            return  # Deleted since the recount was requested.

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


def _key(quota: Object) -> tuple[str, str]:
    return quota["metadata"]["namespace"], quota["metadata"]["name"]
