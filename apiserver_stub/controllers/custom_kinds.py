"""Custom kinds: serve what CustomResourceDefinitions declare, and report their names and readiness in the status.

A kind is served as soon as its names are accepted; the definition becomes ``Established`` afterwards, so that a client
that waits for this condition can use the kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.kinds.custom_resource_definitions import condition, is_true, set_condition
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.storage import Keep, Outcome, Put, Record
from apiserver_stub.validation.custom_resource_definitions import APPROVED, BYPASSED, MISSING, approval, is_protected
from nodeagent.base.aio import Clock

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

_APPROVAL = "KubernetesAPIApprovalPolicyConformant"
_ACCEPTED = ("NoConflicts", "no conflicts found")
_INSTALLING = ("Installing", "the initial names have been accepted")
_ESTABLISHED = ("InitialNamesAccepted", "the initial names have been accepted")
_NOT_ACCEPTED = ("NotAccepted", "not all names are accepted")
_RESOURCE_NAMES = (("plural", "PluralConflict"), ("singular", "SingularConflict"))
_KIND_NAMES = (("kind", "KindConflict"), ("listKind", "ListKindConflict"))


class CustomKinds:
    """Controller of the served custom kinds and of the conditions ``NamesAccepted`` and ``Established``.

    :param collection: the collection of definitions.
    :param declare: returns the resources of a definition.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        collection: str,
        clock: Clock | None = None,
        *,
        declare: Callable[[Object], list[Resource]] = resources_of,
    ) -> None:
        self._store, self._registry, self._collection, self._declare = store, registry, collection, declare
        self._queue: WorkQueue[str] = WorkQueue("custom-kinds", clock)
        self._definitions: dict[str, Object] = {}
        self._served: dict[str, Any] = {}

    def load(self) -> None:
        """Serve the kinds of the stored definitions; called before the server accepts requests."""
        for record in self._store.collection(self._collection).select():
            self._serve(record)

    async def run(self) -> None:
        """Run until cancelled."""
        await run_controller(ChangeFeed(self._store, [self._collection], self), self._queue, self._process)

    def reset(self) -> None:
        stored = self._store.collection(self._collection)
        for name in [name for name in self._definitions if stored.get(name) is None]:
            self._forget(name)

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        self._serve(record)
        self._queue.add(record.key)

    def remove(self, collection: str, record: Record) -> None:
        definition = self._definitions.get(record.key)
        self._forget(record.key)
        if definition is not None:
            self._queue_group(definition["spec"].get("group"), record.key)

    def _serve(self, record: Record) -> None:
        """Serve the versions of a definition, unless nothing that matters has changed."""
        definition: Object = objects.decode(record.data)
        self._definitions[record.key] = definition
        state = (
            definition["metadata"]["uid"],
            definition["spec"],
            definition["status"].get("acceptedNames"),
            [is_true(definition, name) for name in ("NamesAccepted", "Established", "Terminating")],
        )
        if self._served.get(record.key) == state:
            return
        self._served[record.key] = state
        try:
            found = self._declare(definition)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # Definitions of other servers that share the store may not be valid here.
            _log.error("Failed to serve custom kind", extra={"definition": record.key, "err": error}, exc_info=error)
            found = []
        self._registry.replace(record.key, found)

    def _forget(self, name: str) -> None:
        self._definitions.pop(name, None)
        self._served.pop(name, None)
        self._registry.replace(name, [])

    def _queue_group(self, group: str | None, except_for: str) -> None:
        """Queue the other definitions of *group*, since names may have become available."""
        for name, definition in self._definitions.items():
            if name != except_for and definition["spec"].get("group") == group:
                self._queue.add(name)

    async def _process(self, name: str) -> None:
        definition = self._definitions.get(name)
        if definition is None:
            return
        if is_protected(definition["spec"].get("group", "")):
            await self._write(name, _report_approval)
        if definition["spec"]["names"] != definition["status"].get("acceptedNames"):
            if await self._write(name, self._accept_names):
                self._queue_group(definition["spec"].get("group"), name)
        elif is_true(definition, "NamesAccepted") and not is_true(definition, "Established"):
            await self._write(name, _establish)

    async def _write(self, name: str, change: Callable[[Object], None]) -> bool:
        """Apply *change* to the stored definition; return whether it changes anything."""
        written = False

        def decide(current: Record | None) -> Outcome:
            nonlocal written
            written = False
            if current is None:
                raise LookupError(name)
            obj: Object = objects.decode(current.data)
            change(obj)
            data = objects.encode_for_store(obj)
            if data == objects.encode_for_store(objects.decode(current.data)):
                return Keep()
            written = True
            return Put(data)

        try:
            await self._store.update(self._collection, name, decide)
        except LookupError:
            return False  # Deleted since it was queued.
        return written

    def _accept_names(self, definition: Object) -> None:
        """Accept the names of *definition* that no other one of its group uses."""
        resources, kinds = self._names_in_use(definition["spec"].get("group"))
        requested = definition["spec"]["names"]
        accepted = dict(definition["status"].get("acceptedNames") or {})
        conflict: tuple[str, str] | None = None
        for names, used in ((_RESOURCE_NAMES, resources), (_KIND_NAMES, kinds)):
            for field, reason in names:
                value, before = requested.get(field) or "", accepted.get(field) or ""
                if value != before and value in used:
                    conflict = reason, _in_use(value)
                else:
                    accepted[field] = value
            if used is resources and (taken := self._taken_short_names(requested, accepted, used)):
                texts = [_in_use(name) for name in taken]
                conflict = "ShortNamesConflict", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        _copy(accepted, "categories", requested)
        definition["status"]["acceptedNames"] = {name: accepted[name] for name in _ordered(accepted)}
        if conflict is not None:
            set_condition(definition, "NamesAccepted", "False", *conflict)
        else:
            set_condition(definition, "NamesAccepted", "True", *_ACCEPTED)
        if not is_true(definition, "Established"):
            if conflict is None:
                set_condition(definition, "Established", "False", *_INSTALLING)
            elif not condition(definition, "Established"):
                set_condition(definition, "Established", "False", *_NOT_ACCEPTED)

    def _taken_short_names(self, requested: Object, accepted: Object, used: set[str]) -> list[str]:
        """Accept the short names unless one is in use; return those."""
        own = accepted.get("shortNames") or ()
        taken = [name for name in requested.get("shortNames") or () if name not in own and name in used]
        if not taken:
            _copy(accepted, "shortNames", requested)
        return taken

    def _names_in_use(self, group: str | None) -> tuple[set[str], set[str]]:
        """Return the accepted names of resources and of kinds in *group*."""
        resources: set[str] = set()
        kinds: set[str] = set()
        for definition in self._definitions.values():
            if definition["spec"].get("group") == group:
                names = definition["status"].get("acceptedNames") or {}
                resources.update((names.get("plural", ""), names.get("singular", "")))
                resources.update(names.get("shortNames") or ())
                kinds.update((names.get("kind", ""), names.get("listKind", "")))
        return resources, kinds


def _establish(definition: Object) -> None:
    if is_true(definition, "NamesAccepted"):
        set_condition(definition, "Established", "True", *_ESTABLISHED)


def _report_approval(definition: Object) -> None:
    state, message = approval(definition)
    reason = {APPROVED: "ApprovedAnnotation", BYPASSED: "UnapprovedAnnotation", MISSING: "MissingAnnotation"}
    status = "True" if state == APPROVED else "False"
    set_condition(definition, _APPROVAL, status, reason.get(state, "InvalidAnnotation"), message)


def _in_use(name: str) -> str:
    return f'"{name}" is already in use'


def _copy(target: Object, name: str, source: Object) -> None:
    if source.get(name):
        target[name] = source[name]
    else:
        target.pop(name, None)


_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


def _ordered(names: Object) -> Iterable[str]:
    return sorted(names, key=_ORDER.index)
