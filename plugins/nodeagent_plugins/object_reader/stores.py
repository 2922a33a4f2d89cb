"""Object stores for one resource: without cache, or with a cache whose entries expire.

A third store, which watches each object, is in :mod:`nodeagent_plugins.object_reader.watching`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from msgspec import field

from nodeagent.base.aio import Clock
from nodeagent.base.structs import MutableStruct
from nodeagent.contracts.api import Api, Resource
from nodeagent.errors import ApiError, ApiNotFound

_log = logging.getLogger(__name__)

PlainObject = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


class ObjectStore(Protocol):
    """Objects of one resource; entries are cached only while a pod references them."""

    def add(self, key: Key) -> None:
        """Add a reference of a pod to *key*."""
        ...

    def remove(self, key: Key) -> None:
        """Remove a reference of a pod to *key*."""
        ...

    async def get(self, key: Key) -> PlainObject | None:
        """Return the object, or ``None`` if it does not exist.

        :raises ApiError: the object cannot be read now.
        """
        ...


class DirectStore:
    """Reads from the server each time."""

    def __init__(self, api: Api, resource: Resource) -> None:
        self._api, self._resource = api, resource

    def add(self, key: Key) -> None:
        """No cache to update."""

    def remove(self, key: Key) -> None:
        """No cache to update."""

    async def get(self, key: Key) -> PlainObject | None:
        return await fetch(self._api, self._resource, key)


class _Entry(MutableStruct):
    pods: int = 0
    object: PlainObject | None = None
    read_at: float | None = None
    known: bool = False
    """``object`` has been read from the server."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class CachingStore:
    """Reads an object again if it is older than the time to live, or if a pod was registered since.

    A failed refresh keeps the old object, which a ``cachetools.TTLCache`` would have evicted.

    :param ttl_seconds: called for each read.
    """

    def __init__(self, api: Api, resource: Resource, clock: Clock, ttl_seconds: Callable[[], float]) -> None:
        self._api, self._resource, self._clock, self._ttl_seconds = api, resource, clock, ttl_seconds
        self._entries: dict[Key, _Entry] = {}

    def add(self, key: Key) -> None:
        entry = self._entries.setdefault(key, _Entry())
        entry.pods += 1
        entry.read_at = None

    def remove(self, key: Key) -> None:
        entry = self._entries.get(key)
        if entry is not None:
            entry.pods -= 1
            if entry.pods <= 0:
                del self._entries[key]

    async def get(self, key: Key) -> PlainObject | None:
        entry = self._entries.get(key)
        if entry is None:
            return await fetch(self._api, self._resource, key)
        async with entry.turn:
            now = self._clock.now()
            if entry.read_at is None or now - entry.read_at >= self._ttl_seconds():
                try:
                    # The server may use its cache for a refresh.
                    entry.object = await fetch(self._api, self._resource, key, cached=entry.known)
                except ApiError as error:
                    if not entry.known:
                        raise
                    _log.warning(
                        "Failed to refresh object", extra={"kind": self._resource.kind, "key": key, "err": str(error)}
                    )
                else:
                    entry.known, entry.read_at = True, now
            return entry.object


async def fetch(api: Api, resource: Resource, key: Key, *, cached: bool = False) -> PlainObject | None:
    """Read one object; ``None`` if it does not exist."""
    namespace, name = key
    try:
        return slim(await api.get(resource, name, namespace, into=dict, cached=cached))
    except ApiNotFound:
        return None


def slim(obj: PlainObject) -> PlainObject:
    """Remove server-side metadata that pods cannot see and that can be larger than the rest."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return obj
