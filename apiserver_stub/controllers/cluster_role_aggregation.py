"""Cluster role aggregation: maintain the rules of ClusterRoles with an ``aggregationRule``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.authz.rbac import RbacNames
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.storage import Keep, Outcome, Put, Record, Store
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity
from nodeagent.base.selectors import LabelSelector, Requirement
from nodeagent.base.structs import Struct

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_MAX_PAUSE_SECONDS = 5.0
_STARTUP_PASSES = 3
"""Length of the longest chain of default roles; longer chains are completed after startup."""
_STEP = 200
_encode = msgspec.json.Encoder(order="sorted").encode


async def keep_aggregated(store: Store, identity: Identity, *, clock: Clock | None = None) -> None:
    """Run the cluster role aggregation controller until cancelled."""
    await RoleAggregation(store, identity, clock).run()


async def aggregate_roles(store: Store, identity: Identity) -> None:
    """Aggregate cluster roles in a bounded number of passes, before the server starts to serve.

    :raises StoreUnavailable: a write could not be made durable.
    """
    await RoleAggregation(store, identity).run_passes(_STARTUP_PASSES)


class _Role(Struct, frozen=True):
    labels: Mapping[str, str]
    rules: tuple[bytes, ...]
    selectors: tuple[LabelSelector, ...] | None
    """``None`` unless the role is aggregated."""

    def selects(self, other: _Role | None) -> bool:
        return other is not None and any(selector.matches(other.labels) for selector in self.selectors or ())


class RoleAggregation:
    """Controller of aggregated cluster roles.

    Roles that aggregate each other without converging are written at increasing intervals.
    """

    def __init__(self, store: Store, identity: Identity, clock: Clock | None = None) -> None:
        self._store = store
        self._queue: WorkQueue[str] = WorkQueue("aggregated-roles", clock, max_pause_seconds=_MAX_PAUSE_SECONDS)
        self._collection = RbacNames.of(identity).cluster_roles
        self._feed = ChangeFeed(store, [self._collection], self)
        self._roles: dict[str, _Role] = {}
        self._aggregated: dict[str, _Role] = {}

    async def run(self) -> None:
        await run_controller(self._feed, self._queue, self._process)

    async def run_passes(self, passes: int) -> None:
        """Process every aggregated role, in at most *passes* passes; stop after a pass without changes."""
        for _ in range(passes):
            await self._feed.catch_up()
            changed = False
            for name in sorted(self._aggregated):
                changed = await self._aggregate(name) or changed
                await self._feed.catch_up()
                await asyncio.sleep(0)
            if not changed:
                break

    def reset(self) -> None:
        self._roles.clear()
        self._aggregated.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        name, before, role = record.key, self._roles.get(record.key), _read(record)
        self._roles[name] = role
        self._aggregated.pop(name, None)
        if role.selectors is not None:
            self._aggregated[name] = role
            if before is None or (before.selectors, before.rules) != (role.selectors, role.rules):
                self._queue.add(name)
        if before is None or (before.labels, before.rules) != (role.labels, role.rules):
            self._queue_selecting(name, before, role)

    def remove(self, collection: str, record: Record) -> None:
        before = self._roles.pop(record.key, None)
        self._aggregated.pop(record.key, None)
        self._queue_selecting(record.key, before, None)

    def _queue_selecting(self, name: str, before: _Role | None, after: _Role | None) -> None:
        for other, role in self._aggregated.items():
            if other != name and (role.selects(before) or role.selects(after)):
                self._queue.add(other)

    async def _process(self, name: str) -> None:
        if await self._aggregate(name):
            self._queue.slow_down(name)

    async def _aggregate(self, name: str) -> bool:
        """Update the rules of the role; return whether they changed."""
        role = self._aggregated.get(name)
        if role is None:
            return False
        found: dict[bytes, None] = {}
        for number, other in enumerate(sorted(self._roles.keys() - {name}), 1):
            selected = self._roles.get(other)
            if selected is not None and role.selects(selected):
                found.update(dict.fromkeys(selected.rules))
            if number % _STEP == 0:
                await asyncio.sleep(0)
        if tuple(found) == role.rules:
            return False
        rules = [objects.decode(rule) for rule in found]

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(name)
            obj: Object = objects.decode(current.data)
            if not obj.get("aggregationRule") or (obj.get("rules") or []) == rules:
                return Keep()
            return Put(objects.encode_for_store({**obj, "rules": rules}))

        try:
            await self._store.update(self._collection, name, decide)
        except LookupError:
            return False  # Deleted since it was queued.
        return True


def _read(record: Record) -> _Role:
    role = objects.decode(record.data)
    rule = role.get("aggregationRule")
    selectors = tuple(_selectors(rule)) if rule else None
    return _Role(
        role["metadata"].get("labels") or {}, tuple(_encode(item) for item in role.get("rules") or ()), selectors
    )


def _selectors(rule: Object) -> Iterator[LabelSelector]:
    for selector in rule.get("clusterRoleSelectors") or ():
        labels = selector.get("matchLabels") or {}
        found = [Requirement(key, "in", frozenset([value])) for key, value in labels.items()]
        for term in selector.get("matchExpressions") or ():
            found.append(Requirement(term["key"], _OPERATORS[term["operator"]], frozenset(term.get("values") or ())))
        yield LabelSelector(tuple(found))
