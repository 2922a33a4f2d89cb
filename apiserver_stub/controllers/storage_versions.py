"""Storage versions of this server: the versions in which it encodes and decodes objects (spec: gate.StorageVersionAPI).

Writes to a resource are rejected until its storage version is reported, so that a migration of stored objects that
started before is not left incomplete by objects of an unreported version.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import unavailable
from apiserver_stub.controllers.storage_version_status import with_entry
from apiserver_stub.kinds.storage_versions import GROUP, PLURAL, VERSION
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreRejected, StoreUnavailable
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import RequestInfo
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.storage import Store
    from nodeagent.base.identity import Identity

_log = logging.getLogger(__name__)

_RETRY_SECONDS, _RENEWAL_SECONDS = 1.0, 600.0
_READS = frozenset(("get", "list", "watch"))


class Versions(Struct, frozen=True):
    """Versions of the objects of one collection."""

    name: str
    """Name of the StorageVersion: group and resource."""
    resources: tuple[tuple[str, str], ...]
    """Groups and plurals of the resources that share the objects."""
    encoding: str
    decodable: tuple[str, ...]
    served: tuple[str, ...]


def supported_versions(known: Iterable[Resource], registry: Registry) -> list[Versions]:
    """Return the versions of all stored resources of *known*, sorted by name.

    :param known: the resources of this release, of which *registry* has those that are served.
    """
    collections: dict[str, list[Resource]] = {}
    for resource in known:
        if "watch" in resource.verbs:  # Others, such as reviews, are not stored.
            collections.setdefault(resource.storage, []).append(resource)
    found = (_versions_of(resources, registry) for resources in collections.values())
    return sorted((item for item in found if item.served), key=lambda item: item.name)


def _versions_of(resources: list[Resource], registry: Registry) -> Versions:
    first, encoding = min(resources, key=lambda item: item.group), resources[0].encoding_version
    served = [item for item in resources if registry.find(item.group, item.version, item.plural) is not None]
    return Versions(
        f"{first.group or 'core'}.{first.plural}",
        tuple({(item.group, item.plural): None for item in resources}),
        encoding,
        tuple(dict.fromkeys([encoding, *(item.api_version for item in resources)])),
        tuple(dict.fromkeys(item.api_version for item in served)),
    )


class StorageVersions:
    """Reporter of the storage versions of the server *server_id*.

    :param known: the resources of this release, including those that are not served.
    """

    def __init__(
        self,
        store: Store,
        identity: Identity,
        known: Iterable[Resource],
        registry: Registry,
        server_id: str,
        clock: Clock | None = None,
    ) -> None:
        self._store, self._clock, self._server = store, clock or SystemClock(), server_id
        self._group, self._versions = identity.group(GROUP), supported_versions(known, registry)
        self._collection = f"{self._group}/{PLURAL}"
        self._leases, self._namespace = identity.group("coordination"), identity.system_namespace
        self._errors = {resource: "<nil>" for item in self._versions for resource in item.resources}
        """Resources whose versions are not reported yet, and the last errors."""

    async def run(self) -> None:
        """Report the versions, and again after they were changed or removed, until cancelled."""
        while self._lease() is None:  # The garbage collector removes the versions of servers without a lease.
            await self._clock.sleep(_RETRY_SECONDS)
        while True:
            reported = await asyncio.gather(*map(self._report, self._versions))
            await self._clock.sleep(_RENEWAL_SECONDS if all(reported) else _RETRY_SECONDS)

    async def problem(self) -> str:
        """Return the reason why the server is not ready, empty if all versions are reported."""
        return "not finished" if self._errors else ""

    def check(self, info: RequestInfo) -> None:
        """Reject a write to a resource whose version is not reported yet.

        :raises ApiError: 503.
        """
        if not self._errors or info.verb in _READS:
            return
        resource = (info.group, info.resource)
        if resource == (self._group, PLURAL) or (
            resource == (self._leases, "leases") and info.namespace == self._namespace
        ):
            return
        if (error := self._errors.get(resource)) is not None:
            name = f"{info.resource}.{info.group}" if info.group else info.resource
            text = f"wait for storage version registration to complete for resource: {name}, last seen error: {error}"
            raise unavailable(text)

    def _lease(self) -> Record | None:
        return self._store.collection(f"{self._leases}/leases").get(objects.key_of(self._namespace, self._server))

    async def _report(self, versions: Versions) -> bool:
        """Report *versions*, and return whether they are stored."""
        entry = {
            "apiServerID": self._server,
            "encodingVersion": versions.encoding,
            "decodableVersions": list(versions.decodable),
            "servedVersions": list(versions.served),
        }

        def decide(current: Record | None) -> Outcome:
            found = self._new(versions.name) if current is None else objects.decode(current.data)
            status = found.get("status") or {}
            reported = with_entry(status, entry, objects.now())
            return Keep() if reported == status else Put(objects.encode_for_store({**found, "status": reported}))

        try:
            await self._store.update(self._collection, versions.name, decide)
        except (StoreUnavailable, StoreRejected) as error:
            _log.warning("Failed to update storage version", extra={"resource": versions.name, "err": error})
            for resource in versions.resources:
                if resource in self._errors:
                    self._errors[resource] = str(error)
            return False
        for resource in versions.resources:
            self._errors.pop(resource, None)
        return True

    def _new(self, name: str) -> Object:
        head = {"kind": "StorageVersion", "apiVersion": f"{self._group}/{VERSION}"}
        metadata = {"name": name, "uid": objects.new_uid(), "creationTimestamp": objects.now()}
        return {**head, "metadata": metadata, "spec": {}}
