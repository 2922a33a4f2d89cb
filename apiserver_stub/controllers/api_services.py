"""Registers the group versions that this server serves, one local API service each."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.objects import Object
from apiserver_stub.resources import api_services
from apiserver_stub.resources.api_services import is_local, local_status, priorities
from apiserver_stub.store import Keep, Outcome, Put, Record, Remove, StoreUnavailable
from apiserver_stub.store.base import without_revision
from apiserver_stub.store.collection import Collection
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 5.0
_MANAGED = "onstart"
_MANAGED_OURS = (_MANAGED, "true")


class Registration:
    """Keeps the API services of what *server* serves as they should be.

    One that is deleted or changed comes back, since what it stands for goes on being served; one that somebody took
    over, by taking the label away, is left alone. Those of what is no longer served go, except from a store that
    other servers share: they may be theirs.
    """

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        group = identity.current().group(api_services.GROUP)
        resource = server.registry.find(group, "v1", "apiservices")
        self._collection = resource.storage if resource is not None else ""
        self._label = identity.current().label("automanaged", "kube-aggregator")
        self._wanted = {obj["metadata"]["name"]: obj for obj in self._objects()}

    def _objects(self) -> list[Object]:
        found = []
        for group, version in self._server.registry.group_versions():
            ranks = priorities(group, version)
            if ranks is None:
                continue  # the registration itself is registered nowhere
            spec: Object = {"group": group} if group else {}
            spec |= {"version": version, "groupPriorityMinimum": ranks[0], "versionPriority": ranks[1]}
            found.append(
                {
                    "kind": "APIService",
                    "apiVersion": f"{identity.current().group(api_services.GROUP)}/v1",
                    "metadata": {"name": f"{version}.{group}", "labels": {self._label: _MANAGED}},
                    "spec": spec,
                }
            )
        return found

    async def register(self) -> None:
        """Write what differs, all at once.

        :raises StoreUnavailable: something could not be written.
        """
        if not self._collection:
            return
        kept = {record.key: objects.decode(record.data) for record in self._stored().view()}
        due = [name for name, obj in self._wanted.items() if name not in kept or self._differs(kept[name], obj)]
        due += [name for name, obj in kept.items() if name not in self._wanted and self._is_due(obj)]
        await asyncio.gather(*(self._write(name) for name in due))

    async def keep(self) -> None:
        """Do so after every change; runs until cancelled."""
        while self._collection:
            positions, late = self._server.positions(self._collection), None
            try:
                await self.register()
            except StoreUnavailable as error:
                late = _RETRY_SECONDS
                _log.warning("API services were not registered", extra={"err": error})
            await self._server.changed_since(positions, timeout_seconds=late)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _write(self, name: str) -> None:
        wanted = self._wanted.get(name)

        def decide(current: Record | None) -> Outcome:
            if wanted is not None:
                return self._settle(wanted, current)
            if current is None:
                return Keep()
            obj: Object = objects.decode(current.data)
            return Remove(without_revision(current.data)) if self._is_due(obj) else Keep()

        if wanted is not None or self._stored().get(name) is not None:
            await self._server.store.update(self._collection, name, decide)

    def _stored(self) -> Collection:
        return self._server.store.collection(self._collection)

    def _settle(self, wanted: Object, current: Record | None) -> Outcome:
        if current is None:
            metadata = {**wanted["metadata"], "uid": objects.new_uid(), "creationTimestamp": objects.now()}
            return Put(objects.encode_for_store({**wanted, "metadata": metadata, "status": local_status()}))
        obj: Object = objects.decode(current.data)
        if not self._differs(obj, wanted):
            return Keep()
        obj["spec"] = wanted["spec"]
        obj.setdefault("status", local_status())
        return Put(objects.encode_for_store(obj))

    def _differs(self, obj: Object, wanted: Object) -> bool:
        managed = (obj["metadata"].get("labels") or {}).get(self._label) in _MANAGED_OURS
        return managed and obj["spec"] != wanted["spec"]

    def _is_due(self, obj: Object) -> bool:
        """Return whether an API service that is not of this server is to go."""
        managed = (obj["metadata"].get("labels") or {}).get(self._label) == _MANAGED
        return managed and is_local(obj) and not self._server.options.store_servers
