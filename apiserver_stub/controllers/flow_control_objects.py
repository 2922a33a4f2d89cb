"""Flow schemas and priority levels that the server maintains: mandatory ones always, suggested ones unless changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.defaulting.flow_control_objects import (
    EXEMPT,
    mandatory_levels,
    mandatory_schemas,
    suggested_levels,
    suggested_schemas,
    update_annotation,
)
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove
from nodeagent.base.boolean import parse_bool
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Store


DANGLING = "Dangling"


class FlowControlNames(Struct, frozen=True):
    """Collections and API version of the objects of flow control."""

    schemas: str
    levels: str
    api_version: str

    @classmethod
    def of(cls, identity: Identity) -> FlowControlNames:
        group = identity.group("flowcontrol.apiserver")
        return cls(f"{group}/flowschemas", f"{group}/prioritylevelconfigurations", f"{group}/v1")


def dangling_condition(level: str, *, exists: bool) -> Object:
    """Return the condition of a flow schema that states whether its priority level *level* exists."""
    reference = f'This FlowSchema references the PriorityLevelConfiguration object named "{level}"'
    if exists:
        status, reason, message = "False", "Found", f"{reference} and it exists"
    else:
        status, reason, message = "True", "NotFound", f"{reference} but there is no such object"
    return {"type": DANGLING, "status": status, "reason": reason, "message": message}


class _Maintained(Struct, frozen=True):
    """Objects of one kind with their specs by name."""

    collection: str
    kind: str
    mandatory: Mapping[str, Object]
    suggested: Mapping[str, Object]


class FlowControlObjects:
    """Maintainer of the objects.

    An object whose annotation ``apf.kubernetes.io/autoupdate-spec`` is ``false`` keeps the spec that an operator gave
    it, unless it is mandatory; one whose annotation is ``true`` and which no longer exists by default is deleted.
    """

    def __init__(self, store: Store, identity: Identity, release: Release = OLDEST) -> None:
        self._store, self._identity = store, identity
        self._annotation = update_annotation(identity)
        names = FlowControlNames.of(identity)
        self._api_version = names.api_version
        self._kinds = (
            _Maintained(names.levels, "PriorityLevelConfiguration", mandatory_levels(), suggested_levels()),
            _Maintained(names.schemas, "FlowSchema", mandatory_schemas(), suggested_schemas(identity, release)),
        )

    async def ensure(self) -> None:
        """Create missing objects, restore changed ones, and delete those that no longer exist by default.

        :raises StoreUnavailable: a write could not be made durable.
        """
        await asyncio.gather(*(self._ensure(kind) for kind in self._kinds))

    async def _ensure(self, maintained: _Maintained) -> None:
        collection = self._store.collection(maintained.collection)
        specs = {**maintained.suggested, **maintained.mandatory}
        missing = [name for name in specs if collection.get(name) is None]
        new = [self._new(maintained.kind, name, specs[name]) for name in missing]
        await asyncio.gather(*(ensure(self._store, maintained.collection, obj) for obj in new))
        for name, spec in specs.items():
            record = collection.get(name)
            is_mandatory = name in maintained.mandatory
            if record is None or self._revised(objects.decode(record.data), spec, always=is_mandatory) is None:
                continue
            await self._revise(maintained.collection, name, spec, always=is_mandatory)
        for name in list(self._unwanted(maintained)):
            await self._store.update(maintained.collection, name, self._remove)

    def _new(self, kind: str, name: str, spec: Object) -> Object:
        metadata = {"name": name, "generation": 1, "annotations": {self._annotation: "true"}}
        status: Object = {}
        if "priorityLevelConfiguration" in spec:
            condition = dangling_condition(spec["priorityLevelConfiguration"]["name"], exists=True)
            status = {"conditions": [{**condition, "lastTransitionTime": objects.now()}]}
        return {"kind": kind, "apiVersion": self._api_version, "metadata": metadata, "spec": spec, "status": status}

    async def _revise(self, collection: str, name: str, spec: Object, *, always: bool) -> None:
        def decide(current: Record | None) -> Outcome:
            if current is None:
                return Keep()
            revised = self._revised(objects.decode(current.data), spec, always=always)
            return Keep() if revised is None else Put(objects.encode_for_store(revised))

        await self._store.update(collection, name, decide)

    def _revised(self, obj: Object, spec: Object, *, always: bool) -> Object | None:
        """Return *obj* with the annotation and the spec that it should have, ``None`` if it has them."""
        metadata = obj["metadata"]
        annotations = metadata.get("annotations") or {}
        annotated = parse_bool(annotations.get(self._annotation, ""))
        untouched = metadata.get("generation") == 1
        maintains = always or (untouched if annotated is None else annotated)
        expected = _expected(metadata["name"], spec, obj.get("spec") or {})
        changes = maintains and obj.get("spec") != expected
        if annotated == maintains and not changes:
            return None
        metadata = {**metadata, "annotations": {**annotations, self._annotation: str(maintains).lower()}}
        if not changes:
            return {**obj, "metadata": metadata}
        metadata["generation"] = objects.next_generation(metadata)
        return {**obj, "metadata": metadata, "spec": expected}

    def _unwanted(self, maintained: _Maintained) -> Iterator[str]:
        for record in self._store.collection(maintained.collection).select():
            if record.key not in maintained.mandatory and record.key not in maintained.suggested:
                obj: Object = objects.decode(record.data)
                if self._is_maintained(obj):
                    yield record.key

    def _is_maintained(self, obj: Object) -> bool:
        return bool(parse_bool((obj["metadata"].get("annotations") or {}).get(self._annotation, "")))

    def _remove(self, current: Record | None) -> Outcome:
        if current is None or not self._is_maintained(objects.decode(current.data)):
            return Keep()
        return Remove(current.data)


def _expected(name: str, spec: Object, current: Object) -> Object:
    """Return the spec that an object should have; operators may change the seats of the exempt level."""
    exempt = current.get("exempt")
    return {**spec, "exempt": exempt} if name == EXEMPT and "exempt" in spec and exempt is not None else spec
