"""Configuration of API Priority and Fairness by the stored flow schemas and priority levels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.flow_control_objects import (
    DANGLING,
    FlowControlNames,
    FlowControlObjects,
    dangling_condition,
)
from apiserver_stub.defaulting.flow_control_objects import mandatory_levels, mandatory_schemas
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import read_level
from apiserver_stub.flowcontrol.schemas import LEVEL_HEADER, SCHEMA_HEADER, read_schema
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreRejected, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_MAINTENANCE_SECONDS = 60.0
_SETTLE_SECONDS = 0.1
"""Pause after a change, in which further changes are collected."""


class FlowControlConfig:
    """Maintains the default objects, configures flow control by all objects, and reports dangling flow schemas.

    :param fairness: ``None`` if API Priority and Fairness is disabled; the objects are maintained nevertheless.
    """

    def __init__(
        self,
        store: Store,
        fairness: PriorityAndFairness | None,
        identity: Identity,
        clock: Clock | None = None,
        release: Release = OLDEST,
    ) -> None:
        self._store, self._fairness, self._clock = store, fairness, clock or SystemClock()
        self._names = FlowControlNames.of(identity)
        self._objects = FlowControlObjects(store, identity, release)
        self._applied: object = None

    async def start(self) -> None:
        """Create the default objects and configure flow control, before the server starts to serve.

        :raises StoreUnavailable: a write could not be made durable.
        """
        await self._objects.ensure()
        self._apply()

    async def run(self) -> None:
        """Follow the changes of the objects until cancelled."""
        while True:
            changes = [self._store.collection(name) for name in (self._names.schemas, self._names.levels)]
            waiters = [(item, item.next_change()) for item in changes]
            try:
                try:
                    await self._objects.ensure()
                    self._apply()
                    await self._report_dangling()
                except (StoreUnavailable, StoreRejected) as error:
                    _log.warning("Failed to maintain the objects of flow control", extra={"err": error})
                await self._wait([waiter for _, waiter in waiters])
            finally:
                for collection, waiter in waiters:
                    collection.abandon(waiter)
            await self._clock.sleep(_SETTLE_SECONDS)

    async def _wait(self, changes: Sequence[asyncio.Future[None]]) -> None:
        """Wait until one of *changes* is done or maintenance is due."""
        timer = asyncio.create_task(self._clock.sleep(_MAINTENANCE_SECONDS))
        try:
            await asyncio.wait([timer, *changes], return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
            await asyncio.wait([timer])

    def _apply(self) -> None:
        """Configure flow control by the stored objects; missing mandatory ones have their defaults."""
        if self._fairness is None:
            return
        levels, schemas = self._read(self._names.levels), self._read(self._names.schemas)
        applied = {name: (obj["metadata"].get("uid"), obj.get("spec")) for name, obj in (levels | schemas).items()}
        seen = (sorted(levels), sorted(schemas), applied)
        if seen == self._applied:
            return
        self._applied = seen
        specs = mandatory_levels() | {name: obj["spec"] for name, obj in levels.items()}
        settings = {name: read_level(spec) for name, spec in specs.items()}
        found = []
        for name, spec in (mandatory_schemas() | {name: obj["spec"] for name, obj in schemas.items()}).items():
            level = spec["priorityLevelConfiguration"]["name"]
            if level in settings:
                headers = {SCHEMA_HEADER: _uid(schemas, name), LEVEL_HEADER: _uid(levels, level)}
                found.append(read_schema(name, spec, headers))
        self._fairness.configure(settings, found)

    def _read(self, collection: str) -> dict[str, Object]:
        return {record.key: objects.decode(record.data) for record in self._store.collection(collection).select()}

    async def _report_dangling(self) -> None:
        """Set the condition of each flow schema that states whether its priority level exists, if it has an effect."""
        if self._fairness is None:
            return
        levels = self._store.collection(self._names.levels)
        for name, schema in self._read(self._names.schemas).items():
            level = schema["spec"]["priorityLevelConfiguration"]["name"]
            condition = dangling_condition(level, exists=levels.get(level) is not None)
            if _with_condition(schema, condition) is not None:
                await self._set_condition(name, condition)

    async def _set_condition(self, name: str, condition: Object) -> None:
        def decide(current: Record | None) -> Outcome:
            revised = None if current is None else _with_condition(objects.decode(current.data), condition)
            return Keep() if revised is None else Put(objects.encode_for_store(revised))

        await self._store.update(self._names.schemas, name, decide)


def _uid(found: Mapping[str, Object], name: str) -> str:
    return str(found[name]["metadata"].get("uid") or "") if name in found else ""


def _with_condition(schema: Object, condition: Object) -> Object | None:
    """Return *schema* with *condition*, ``None`` if it has it."""
    status = schema.get("status") or {}
    conditions = status.get("conditions") or []
    current: Object = next((item for item in conditions if item.get("type") == DANGLING), {})
    if all(current.get(name) == value for name, value in condition.items()):
        return None
    others = [item for item in conditions if item.get("type") != DANGLING]
    dated = {**condition, "lastTransitionTime": objects.now()}
    return {**schema, "status": {**status, "conditions": [*others, dated]}}
