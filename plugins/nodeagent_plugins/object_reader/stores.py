"""Where one kind of object is read from: the server itself, or a cache whose entries live for a while.

A third way, following each object, is in :mod:`nodeagent_plugins.object_reader.watching`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from nodeagent.base.aio import Clock
from nodeagent.contracts.api import Api, Resource
from nodeagent.errors import ApiError, ApiNotFound

_log = logging.getLogger(__name__)

PlainObject = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name."""


class ObjectStore(Protocol):
    """Objects of one kind; what is kept is kept only while something refers to it."""

    def add(self, key: Key) -> None:
        """Note one more pod that refers to *key*."""
        ...

    def remove(self, key: Key) -> None:
        """Note one pod less."""
        ...

    async def get(self, key: Key) -> PlainObject | None:
        """Return the object, or ``None`` when it does not exist.

        :raises ApiError: it cannot be read now.
        """
        ...


class DirectStore:
    """Asks the server at each read."""

    def __init__(self, api: Api, resource: Resource) -> None:
        self._api, self._resource = api, resource

    def add(self, key: Key) -> None:
        """Nothing is kept."""

    def remove(self, key: Key) -> None:
        """Nothing is kept."""

    async def get(self, key: Key) -> PlainObject | None:
        return await fetch(self._api, self._resource, key)


@dataclass(slots=True)
class _Entry:
    pods: int = 0
    object: PlainObject | None = None
    read_at: float | None = None
    known: bool = False
    """Whether ``object`` was read from the server at all."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class CachingStore:
    """Reads an object again when what it has is older than the time to live, or when a pod is registered anew.

    A refresh that fails leaves the old object in use, which a ``cachetools.TTLCache`` would have evicted.

    :param ttl_seconds: asked at each read.
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
                    # A mere refresh may come from the server's cache.
                    entry.object = await fetch(self._api, self._resource, key, cached=entry.known)
                except ApiError as error:
                    if not entry.known:
                        raise
                    _log.warning(
                        "Object is not refreshed", extra={"kind": self._resource.kind, "key": key, "err": str(error)}
                    )
                else:
                    entry.known, entry.read_at = True, now
            return entry.object


async def fetch(api: Api, resource: Resource, key: Key, *, cached: bool = False) -> PlainObject | None:
    """Read one object; not being there is ``None``."""
    namespace, name = key
    try:
        return slim(await api.get(resource, name, namespace, into=dict, cached=cached))
    except ApiNotFound:
        return None


def slim(obj: PlainObject) -> PlainObject:
    """Drop the bookkeeping that no pod reads and that can outweigh the rest."""
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        metadata.pop("managedFields", None)
    return obj
