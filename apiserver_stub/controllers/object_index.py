"""Index of views of objects, which the controllers of one server share: each change is decoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.views import View
from apiserver_stub.storage import Record

if TYPE_CHECKING:
    from apiserver_stub.storage import Store

Listener = Callable[[View | None, View | None], None]
"""Receiver of a change: the view before it and the view after it; ``None`` if there is none."""


class _Views:
    """Views of one collection by key, by the UID of their controller, and those without one by namespace."""

    def __init__(self, kind: type[View]) -> None:
        self.decode = msgspec.json.Decoder(kind).decode
        self.by_key: dict[str, View] = {}
        self.owned: dict[str, dict[str, View]] = {}
        self.orphans: dict[str, dict[str, View]] = {}
        self.listeners: list[Listener] = []

    def clear(self) -> None:
        self.by_key.clear()
        self.owned.clear()
        self.orphans.clear()

    def put(self, view: View) -> View | None:
        """Store *view* and return the previous one."""
        before = self.drop(view.key)
        self.by_key[view.key] = view
        group, name = self._group(view)
        group.setdefault(name, {})[view.key] = view
        return before

    def drop(self, key: str) -> View | None:
        """Remove the view with *key* and return it."""
        before = self.by_key.pop(key, None)
        if before is not None:
            group, name = self._group(before)
            views = group[name]
            del views[key]
            if not views:
                del group[name]
        return before

    def _group(self, view: View) -> tuple[dict[str, dict[str, View]], str]:
        owner = view.controller
        return (self.orphans, view.metadata.namespace) if owner is None else (self.owned, owner.uid)


class ObjectIndex:
    """Index of the objects of *kinds*: collection → type of the views.

    Listeners are called for each object once, and then for each change of a field of its view. They are fast and do
    not block.
    """

    def __init__(self, store: Store, kinds: Mapping[str, type[View]]) -> None:
        self._views = {collection: _Views(kind) for collection, kind in kinds.items()}
        self._feed = ChangeFeed(store, list(kinds), self)

    def listen(self, collection: str, listener: Listener) -> None:
        """Call *listener* for the objects and changes of *collection*; call this before the index runs."""
        self._views[collection].listeners.append(listener)

    def get(self, collection: str, key: str) -> Any:
        """Return the view of an object, ``None`` if it does not exist."""
        return self._views[collection].by_key.get(key)

    def all(self, collection: str) -> list[Any]:
        """Return the views of all objects of *collection*."""
        return list(self._views[collection].by_key.values())

    def owned(self, collection: str, uid: str) -> list[Any]:
        """Return the views of the objects of *collection* that the owner *uid* manages."""
        return list(self._views[collection].owned.get(uid, {}).values())

    def orphans(self, collection: str, namespace: str) -> list[Any]:
        """Return the views of the objects of *namespace* that no owner manages."""
        return list(self._views[collection].orphans.get(namespace, {}).values())

    async def run(self) -> None:
        """Maintain the index until cancelled."""
        await self._feed.run()

    async def catch_up(self) -> None:
        """Include all changes that were visible to readers of the store at the time of the call."""
        await self._feed.catch_up()

    def reset(self) -> None:
        for views in self._views.values():
            views.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        views = self._views[collection]
        view = views.decode(record.data)
        before = views.put(view)
        if before != view:
            for listener in views.listeners:
                listener(before, view)

    def remove(self, collection: str, record: Record) -> None:
        views = self._views[collection]
        before = views.drop(record.key)
        if before is not None:
            for listener in views.listeners:
                listener(before, None)
