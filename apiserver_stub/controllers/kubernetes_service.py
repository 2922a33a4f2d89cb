"""Reconcile the ``kubernetes`` Service in ``default`` and its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import Reservation
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.kinds.endpoint_slices import endpoint_slice_group
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove, StoreRejected, StoreUnavailable
from apiserver_stub.storage.record import without_revision
from apiserver_stub.verbs.allocation import NOT_MADE
from apiserver_stub.verbs.deferred_write import write
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.lifecycle import Lifecycle
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

LEASES = "core/masterleases"
LEASE_SECONDS = 15
_RENEW_SECONDS = 10.0
_KEY = "default/kubernetes"


class KubernetesServiceSettings(Struct, frozen=True):
    """Settings of the ``kubernetes`` Service."""

    networks: Sequence[IPv4Network | IPv6Network]
    """Service CIDRs; the Service has the first address of the first CIDR."""
    node_port: int = 0
    """Node port; 0 for a Service of type ClusterIP."""
    reconciler: str = "lease"
    """``lease``, ``master-count`` or ``none`` (spec: opt.endpoint-reconciler-type)."""


class KubernetesService:
    """Controller of the ``kubernetes`` Service and its endpoints.

    With ``lease`` every server renews a lease under its address, and the endpoints are the servers whose lease has not
    expired; with ``master-count`` this server is the only endpoint; with ``none`` endpoints are not reconciled.

    :param address: returns the ``host:port`` of this server.
    """

    def __init__(
        self,
        store: Store,
        registry: Registry,
        lifecycle: Lifecycle,
        address: Callable[[], str],
        settings: KubernetesServiceSettings,
        identity: Identity,
    ) -> None:
        self._store, self._registry, self._lifecycle = store, registry, lifecycle
        self._address, self._settings, self._identity = address, settings, identity
        self._slice_group = endpoint_slice_group(identity)

    async def reconcile(self) -> None:
        """Create or repair the Service, and write the address of this server into its endpoints."""
        host, port = self._host_and_port()
        networks = self._settings.networks
        cluster_ip = str(networks[0].network_address + 1)
        service: Object = {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": cluster_ip,
                "clusterIPs": [cluster_ip],
                "ipFamilies": ["IPv6" if networks[0].version == 6 else "IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "sessionAffinity": "None",
            },
            "status": {"loadBalancer": {}},
        }
        ports: list[Object] = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]
        node_port = self._settings.node_port
        if node_port:
            ports[0]["nodePort"] = node_port

        def complete(found: Object) -> None:
            spec = found["spec"]
            spec["type"], spec["ports"] = "NodePort" if node_port else "ClusterIP", ports
            if node_port:
                spec["externalTrafficPolicy"] = "Cluster"
            else:
                spec.pop("externalTrafficPolicy", None)

        complete(service)
        await self._write_service(service, complete)
        if self._settings.reconciler != "none":
            endpoints: Object = {
                "kind": "Endpoints",
                "apiVersion": "v1",
                "metadata": {
                    "name": "kubernetes",
                    "namespace": "default",
                    "labels": {self._identity.label("skip-mirror", "endpointslice"): "true"},
                },
            }
            await ensure(self._store, "core/endpoints", endpoints)
            if self._serves_slices():
                endpoint_slice: Object = {
                    "kind": "EndpointSlice",
                    "apiVersion": f"{self._slice_group}/v1",
                    "metadata": {
                        "name": "kubernetes",
                        "namespace": "default",
                        "labels": {self._identity.label("service-name"): "kubernetes"},
                        "generation": 1,
                    },
                    "addressType": "IPv6" if ":" in host else "IPv4",
                    "endpoints": [],
                    "ports": [],
                }
                await ensure(self._store, f"{self._slice_group}/endpointslices", endpoint_slice)
            await self._reconcile_endpoints(host, port)

    async def _write_service(self, service: Object, complete: Callable[[Object], object]) -> None:
        """Create *service*, or update the existing one with *complete*."""
        resource = self._registry.find("", "v1", "services")
        if resource is None:
            return
        reservation: Reservation | None = None

        async def plan(current: Record | None) -> Outcome:
            nonlocal reservation
            if reservation is not None:
                await reservation.release()
                reservation = None
            if current is None:
                old, new = None, service
                new["metadata"] |= {"uid": objects.new_uid(), "creationTimestamp": objects.now()}
            else:
                old, new = objects.decode(current.data), objects.decode(current.data)
                complete(new)
                if new == old:
                    return Keep()
            reservation = await resource.strategy.reserve(self._store, new, old)
            return Put(objects.encode_for_store(new))

        try:
            await write(self._store, resource.storage, _KEY, plan)
        except NOT_MADE as error:
            _log.error("Failed to allocate address or port of kubernetes Service", extra={"err": error})
            if reservation is not None:
                await reservation.release()
        else:
            if reservation is not None:
                await reservation.keep()

    async def run(self) -> None:
        """Reconcile periodically until cancelled or the process terminates."""
        while not self._lifecycle.terminating:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self.reconcile()
            except (StoreUnavailable, StoreRejected) as error:
                _log.error("unable to sync kubernetes service: %s", error)
            except Exception as error:
                # Other clients may have written anything into the objects; the next attempt may find them repaired.
                _log.error("unable to sync kubernetes service: %s", error, exc_info=error)

    async def withdraw(self) -> None:
        """Remove the lease and address of this server; called when it stops, which a failure must not prevent."""
        if self._settings.reconciler == "none":
            return
        host, port = self._host_and_port()
        try:
            await self._remove_lease(host)
            await self._write([other for other in self._living() if other != host], port)
        except Exception as error:  # The lease expires, and the other servers remove the address.
            unexpected = None if isinstance(error, StoreUnavailable | StoreRejected) else error
            _log.error("Unable to remove endpoints from kubernetes service: %s", error, exc_info=unexpected)

    async def _remove_lease(self, host: str) -> None:
        def end(current: Record | None) -> Outcome:
            return Keep() if current is None else Remove(without_revision(current.data))

        if self._store.collection(LEASES).get(host) is not None:
            with contextlib.suppress(LookupError):  # It has expired.
                await self._store.update(LEASES, host, end)

    async def _reconcile_endpoints(self, host: str, port: int) -> None:
        if self._lifecycle.terminating:
            return
        if self._settings.reconciler == "master-count":
            await self._write([host], port)
            return
        lease: Object = {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {"name": host, "generation": 1, "creationTimestamp": objects.now()},
            "subsets": [{"addresses": [{"ip": host}]}],
        }
        await self._store.update(LEASES, host, lambda _: Put(objects.encode_for_store(lease), LEASE_SECONDS))
        await self._write(sorted({host, *self._living()}), port)

    def _living(self) -> list[str]:
        """Return the addresses of the servers whose lease has not expired."""
        return [record.key for record in self._store.collection(LEASES).select()]

    async def _write(self, hosts: Sequence[str], port: int) -> None:
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        subsets = [{"addresses": [{"ip": host} for host in hosts], "ports": ports}]

        def change(found: Object) -> None:
            if hosts and found.get("subsets") and found["subsets"] != subsets:
                name, addresses = "kubernetes", ", ".join(hosts)
                _log.warning('Resetting endpoints for master service "%s" to %s', name, addresses)
            if hosts:
                found["subsets"] = subsets
            else:
                found.pop("subsets", None)

        def change_slice(found: Object) -> None:
            # A shared store may hold protobuf, which omits empty lists.
            desired = [{"addresses": [host], "conditions": {"ready": True}} for host in hosts]
            if (found.get("endpoints") or [], found.get("ports")) != (desired, ports):
                found["endpoints"], found["ports"] = desired, ports
                found["metadata"]["generation"] = objects.next_generation(found["metadata"])

        await self._change("core/endpoints", change)
        if self._serves_slices():
            await self._change(f"{self._slice_group}/endpointslices", change_slice)

    def _serves_slices(self) -> bool:
        return self._registry.find(self._slice_group, "v1", "endpointslices") is not None

    def _host_and_port(self) -> tuple[str, int]:
        host, _, port = self._address().rpartition(":")
        return host.strip("[]"), int(port)

    async def _change(self, collection: str, change: Callable[[Object], object]) -> None:
        """Apply *change* to the object if it exists, and write it if it differs."""

        def decide(current: Record | None) -> Outcome:
            if current is None:
                return Keep()
            found: Object = objects.decode(current.data)
            change(found)
            return Keep() if found == objects.decode(current.data) else Put(objects.encode_for_store(found))

        if self._store.collection(collection).get(_KEY) is not None:
            with contextlib.suppress(LookupError):  # Another client deletes it.
                await self._store.update(collection, _KEY, decide)
