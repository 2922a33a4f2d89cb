"""``default/kubernetes``: the service by which pods find this server, and the endpoints behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub import objects
from apiserver_stub.controllers.namespaces import ensure
from apiserver_stub.objects import Object
from apiserver_stub.store import Keep, Outcome, Put, Record
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

CLUSTER_IP = "10.0.0.1"
_KEY = "default/kubernetes"


async def announce(server: ApiServer) -> None:
    """Create the service where it is missing, and write the address of this server into its endpoints."""
    host, _, port = server.address.rpartition(":")
    target = int(port)
    service: Object = {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": CLUSTER_IP,
            "clusterIPs": [CLUSTER_IP],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
        },
        "status": {"loadBalancer": {}},
    }
    ports = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": target}]
    service["spec"]["ports"] = ports
    await ensure(server, "core/services", service)
    await _change(server, "core/services", lambda found: found["spec"].__setitem__("ports", ports))
    subset = {"addresses": [{"ip": host.strip("[]")}], "ports": [{"name": "https", "port": target, "protocol": "TCP"}]}
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
    await _change(server, "core/endpoints", lambda found: found.__setitem__("subsets", [subset]))


async def withdraw(server: ApiServer) -> None:
    """Take the address out of the endpoints, as this server stops."""
    await _change(server, "core/endpoints", lambda found: found.pop("subsets", None))


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
