"""``default/kubernetes``: the service by which pods find this server, and the endpoints behind it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.ensure import ensure
from apiserver_stub.kinds import endpoint_slices
from apiserver_stub.kinds.registry import Reservation
from apiserver_stub.storage import Keep, Outcome, Put, Record, Remove, StoreRefused, StoreUnavailable
from apiserver_stub.storage.record import without_revision
from apiserver_stub.verbs.planned import write
from apiserver_stub.verbs.reserving import NOT_MADE
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.server.state import ApiServer

_log = logging.getLogger(__name__)

LEASES = "core/masterleases"
LEASE_SECONDS = 15
_RENEW_SECONDS = 10.0
_KEY = "default/kubernetes"


async def announce(server: ApiServer) -> None:
    """Create the service where it is missing, and write the address of this server into its endpoints."""
    options = server.options
    host, port = _address(server)
    networks = options.service_networks
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
    node_port = options.platform_service_node_port
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
    await _write_service(server, service, complete)
    if options.endpoint_reconciler_type != "none":
        endpoints: Object = {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {identity.current().label("skip-mirror", "endpointslice"): "true"},
            },
        }
        await ensure(server, "core/endpoints", endpoints)
        if _serves_slices(server):
            endpoint_slice: Object = {
                "kind": "EndpointSlice",
                "apiVersion": f"{endpoint_slices.GROUP}/v1",
                "metadata": {
                    "name": "kubernetes",
                    "namespace": "default",
                    "labels": {identity.current().label("service-name"): "kubernetes"},
                    "generation": 1,
                },
                "addressType": "IPv6" if ":" in host else "IPv4",
                "endpoints": [],
                "ports": [],
            }
            await ensure(server, endpoint_slices.STORAGE, endpoint_slice)
        await _reconcile(server, host, port)


async def _write_service(server: ApiServer, service: Object, complete: Callable[[Object], object]) -> None:
    """Create *service*, or let *complete* bring the one that is there up to date."""
    resource = server.registry.find("", "v1", "services")
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
        reservation = await resource.strategy.reserve(server.store, new, old)
        return Put(objects.encode_for_store(new))

    try:
        await write(server.store, resource.storage, _KEY, plan)
    except NOT_MADE as error:
        _log.error("This server's own service cannot have its address or port", extra={"err": error})
        if reservation is not None:
            await reservation.release()
    else:
        if reservation is not None:
            await reservation.keep()


async def keep_announced(server: ApiServer) -> None:
    """Keep service and endpoints right until cancelled (spec: opt.endpoint-reconciler-type).

    With ``lease`` every server renews a lease under its address, and the endpoints are those whose lease lives; with
    ``master-count`` this server counts as the only one; with ``none`` the endpoints are left to others.
    """
    while not server.leaving:
        await asyncio.sleep(_RENEW_SECONDS)
        try:
            await announce(server)
        except (StoreUnavailable, StoreRefused) as error:
            _log.warning("Failed to reconcile kubernetes Service", extra={"err": error})
        except Exception as error:
            # Other clients may have written anything into the objects; the next attempt may find them repaired.
            _log.error("Failed to reconcile kubernetes Service", extra={"err": error}, exc_info=error)


async def withdraw(server: ApiServer) -> None:
    """Take the address out of the endpoints, as this server stops."""
    if server.options.endpoint_reconciler_type == "none":
        return
    host, port = _address(server)

    def end(current: Record | None) -> Outcome:
        return Keep() if current is None else Remove(without_revision(current.data))

    if server.store.collection(LEASES).get(host) is not None:
        await server.store.update(LEASES, host, end)
    await _write(server, [other for other in _living(server) if other != host], port)


async def _reconcile(server: ApiServer, host: str, port: int) -> None:
    if server.leaving:
        return
    if server.options.endpoint_reconciler_type == "master-count":
        await _write(server, [host], port)
        return
    lease: Object = {
        "kind": "Endpoints",
        "apiVersion": "v1",
        "metadata": {"name": host, "generation": 1, "creationTimestamp": objects.now()},
        "subsets": [{"addresses": [{"ip": host}]}],
    }
    await server.store.update(LEASES, host, lambda _: Put(objects.encode_for_store(lease), LEASE_SECONDS))
    await _write(server, sorted({host, *_living(server)}), port)


def _living(server: ApiServer) -> list[str]:
    """Return the addresses of the servers whose lease lives."""
    return [record.key for record in server.store.collection(LEASES).select()]


async def _write(server: ApiServer, hosts: Sequence[str], port: int) -> None:
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    subsets = [{"addresses": [{"ip": host} for host in hosts], "ports": ports}]

    def change(found: Object) -> None:
        if hosts:
            found["subsets"] = subsets
        else:
            found.pop("subsets", None)

    def change_slice(found: Object) -> None:
        # protobuf, as a shared store may have it, leaves out what is empty
        given = [{"addresses": [host], "conditions": {"ready": True}} for host in hosts]
        if (found.get("endpoints") or [], found.get("ports")) != (given, ports):
            found["endpoints"], found["ports"] = given, ports
            found["metadata"]["generation"] = (found["metadata"].get("generation") or 0) + 1

    await _change(server, "core/endpoints", change)
    if _serves_slices(server):
        await _change(server, endpoint_slices.STORAGE, change_slice)


def _serves_slices(server: ApiServer) -> bool:
    return server.registry.find(endpoint_slices.GROUP, "v1", "endpointslices") is not None


def _address(server: ApiServer) -> tuple[str, int]:
    host, _, port = server.address.rpartition(":")
    return host.strip("[]"), int(port)


async def _change(server: ApiServer, collection: str, change: Callable[[Object], object]) -> None:
    """Write the object with *change* made to it, unless it is gone or was like that before."""

    def decide(current: Record | None) -> Outcome:
        if current is None:
            return Keep()
        found: Object = objects.decode(current.data)
        change(found)
        return Keep() if found == objects.decode(current.data) else Put(objects.encode_for_store(found))

    if server.store.collection(collection).get(_KEY) is not None:
        await server.store.update(collection, _KEY, decide)
