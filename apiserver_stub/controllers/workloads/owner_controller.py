"""Control loop of a controller whose objects manage others that their selectors select."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import OwnerView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from nodeagent.base.selectors import LabelSelector

if TYPE_CHECKING:
    from apiserver_stub.kinds.registry import Resource

AT_ONCE = 4
"""Owners that a controller processes concurrently."""
_NO_LABELS = LabelSelector()


class OwnerController(Controller):
    """Controller that processes an owner when it or an object that it manages, or may adopt, has changed.

    Before each pass the index includes the earlier writes of the controller, so its decisions are based on them.
    """

    kind: ClassVar[str]
    owners: ClassVar[tuple[str, str, str]]
    """Group, version and plural of the owners."""
    dependents: ClassVar[tuple[str, ...]]
    """Collections of the managed objects."""
    max_pause_seconds: ClassVar[float] = 60.0
    interval_seconds: ClassVar[float] = 0.0
    """Pause between two passes over an owner."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.writer = context.writer(self.name)
        self.events = context.events(self.name)
        self.queue: WorkQueue[str] = WorkQueue(
            self.name, context.clock, interval_seconds=self.interval_seconds, max_pause_seconds=self.max_pause_seconds
        )
        self.owner: Resource = self.writer.resource(*self.owners)
        self._selectors: dict[str, dict[str, LabelSelector]] = {}
        self._api_versions = f"{self.owner.group}/" if self.owner.group else self.owner.version
        context.index.listen(self.owner.storage, self._owner_changed)
        for collection in self.dependents:
            context.index.listen(collection, self._dependent_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.events.run())
            group.create_task(self.queue.run(self._process, at_once=AT_ONCE))

    def selector_of(self, spec: Mapping[str, Any]) -> LabelSelector | None:
        """Return the selector in the spec of an owner; ``None`` if it selects nothing."""
        selector = spec.get("selector")
        return None if selector is None else read_selector(selector)

    async def sync(self, owner: Object) -> None:
        """Process *owner*.

        :raises ApiError: a write is rejected; the owner is processed again.
        """
        raise NotImplementedError

    async def deleted(self, key: str) -> None:
        """Process the deletion of the owner *key*, if a dependent has changed since."""

    async def _process(self, key: str) -> None:
        context = self.context
        await context.leadership.acquired()
        await self.writer.settled()
        await context.index.catch_up()
        record = context.verbs.store.collection(self.owner.storage).get(key)
        if record is None:
            await self.deleted(key)
        else:
            await self.sync(self.owner.read(record))

    def _owner_changed(self, before: View | None, after: View | None) -> None:
        view = after or before
        if view is None:
            return
        selectors = self._selectors.setdefault(view.metadata.namespace, {})
        if isinstance(after, OwnerView):
            selectors[view.key] = self.selector_of({"selector": after.spec.selector}) or _NO_LABELS
            self.queue.add(view.key)
            return
        selectors.pop(view.key, None)
        if not selectors:
            del self._selectors[view.metadata.namespace]

    def _dependent_changed(self, before: View | None, after: View | None) -> None:
        for view in (before, after):
            if view is not None and (owner := view.controller) is not None and self._is_owner(owner.kind, owner):
                self.queue.add(objects.key_of(view.metadata.namespace, owner.name))
        if after is None or after.controller is not None or after.deleting:
            return
        for key, selector in self._selectors.get(after.metadata.namespace, {}).items():
            if selector and selector.matches(after.metadata.labels):
                self.queue.add(key)

    def _is_owner(self, kind: str, owner: Any) -> bool:
        version = owner.api_version
        return kind == self.kind and (
            version.startswith(self._api_versions) if "/" in self._api_versions else version == self._api_versions
        )
