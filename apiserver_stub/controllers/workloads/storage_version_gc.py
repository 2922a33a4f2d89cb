"""Storage version garbage collector: removes the storage versions of API servers without an identity lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.storage_version_status import with_entries
from apiserver_stub.controllers.views import LeaseView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads.owners import seen
from apiserver_stub.kinds.storage_versions import GROUP, PLURAL, VERSION

if TYPE_CHECKING:
    from nodeagent.base.identity import Identity


class StorageVersionView(View, frozen=True, rename="camel"):
    """A StorageVersion."""

    status: dict[str, Any] | None = None

    @property
    def servers(self) -> set[str]:
        """Identities of the servers that have reported their versions."""
        return {entry.get("apiServerID", "") for entry in (self.status or {}).get("storageVersions") or ()}


class StorageVersionGarbageCollector(Controller):
    """Entries of StorageVersions (spec: gate.StorageVersionAPI)."""

    name, alias = "storage-version-garbage-collector-controller", "storage-version-gc"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        identity = context.identity
        self._writer = context.writer(self.name)
        self._resource = self._writer.resource(identity.group(GROUP), VERSION, PLURAL)
        self._leases, self._namespace = _leases(identity), identity.system_namespace
        self._component_label = identity.label("identity", "apiserver")
        self._queue: WorkQueue[str] = WorkQueue(self.name, context.clock)
        context.index.listen(self._resource.storage, self._version_changed)
        context.index.listen(self._leases, self._lease_changed)

    @classmethod
    def resources_of(cls, identity: Identity) -> Sequence[str]:
        return (f"{PLURAL}.{identity.group(GROUP)}", f"leases.{identity.group('coordination')}")

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        return {_versions(identity): StorageVersionView, _leases(identity): LeaseView}

    async def run(self) -> None:
        gates = self.context.gates
        if gates.enabled("StorageVersionAPI") and gates.enabled("APIServerIdentity"):
            await self._queue.run(self._process)

    def _version_changed(self, before: View | None, after: View | None) -> None:
        if after is not None:
            self._queue.add(after.key)

    def _lease_changed(self, before: View | None, after: View | None) -> None:
        if before is None or after is not None or before.metadata.namespace != self._namespace:
            return
        for version in self.context.index.all(self._resource.storage):
            if before.metadata.name in version.servers:
                self._queue.add(version.key)

    async def _process(self, key: str) -> None:
        await self.context.leadership.acquired()
        await self.context.index.catch_up()
        version: StorageVersionView | None = self.context.index.get(self._resource.storage, key)
        if version is None or not (ended := {server for server in version.servers if not self._exists(server)}):
            return
        if ended == version.servers:
            await self._writer.delete(self._resource, seen(version)["metadata"])
            return

        def edit(obj: Object) -> None:
            status = obj.get("status") or {}
            left = [entry for entry in status.get("storageVersions") or () if entry.get("apiServerID") not in ended]
            obj["status"] = with_entries(status, left, objects.format_time(self.context.clock.wall()))

        await self._writer.change(self._resource, seen(version), edit)

    def _exists(self, server: str) -> bool:
        lease = self.context.index.get(self._leases, objects.key_of(self._namespace, server))
        return lease is not None and (lease.metadata.labels or {}).get(self._component_label) == "kube-apiserver"


def _leases(identity: Identity) -> str:
    return f"{identity.group('coordination')}/leases"


def _versions(identity: Identity) -> str:
    return f"{identity.group(GROUP)}/{PLURAL}"
