"""Where the service of an API service is reached: its cluster IP, or one of its endpoints."""

from __future__ import annotations

import random

from apiserver_stub.apimachinery.objects import Object, decode, key_of
from apiserver_stub.storage import Store

SERVICES, ENDPOINTS = "core/services", "core/endpoints"
_WITH_ADDRESS = ("ClusterIP", "LoadBalancer", "NodePort")


class Unresolved(Exception):
    """The service leads nowhere."""


def resolve(store: Store, namespace: str, name: str, port: int, *, by_endpoint: bool) -> tuple[str, int]:
    """Return the address and port to connect to (spec: opt.enable-aggregator-routing).

    :param by_endpoint: choose an endpoint at random instead of leaving that to who balances the cluster IP.
    :raises Unresolved: there is no such service or port, or nothing behind it.
    """
    spec = (find(store, SERVICES, namespace, name) or {}).get("spec")
    if spec is None:
        raise Unresolved(f'service "{name}" not found')
    kind, address = spec.get("type") or "ClusterIP", spec.get("clusterIP") or ""
    if kind == "ExternalName" and not by_endpoint:
        return str(spec.get("externalName") or ""), port
    if kind not in _WITH_ADDRESS:
        raise Unresolved(f'unsupported service type "{kind}"')
    if address == "None" and not by_endpoint:
        raise Unresolved('cannot route to service with ClusterIP "None"')
    port_name = name_of_port(spec, port)
    if port_name is None:
        raise Unresolved(f'no service port {port} found for service "{name}"')
    if not by_endpoint:
        return str(address), port
    found = endpoints_of(find(store, ENDPOINTS, namespace, name) or {}, port_name)
    if not found:
        raise Unresolved(f'no endpoints available for service "{name}"')
    return random.choice(found)  # noqa: S311 - any of them will do


def find(store: Store, collection: str, namespace: str, name: str) -> Object | None:
    """Return a stored object, ``None`` when there is none."""
    record = store.collection(collection).get(key_of(namespace, name))
    return None if record is None else decode(record.data)


def name_of_port(spec: Object, port: int) -> str | None:
    """Return what a service calls its port *port*, ``None`` when it has none such."""
    return next((item.get("name") or "" for item in spec.get("ports") or () if item.get("port") == port), None)


def endpoints_of(endpoints: Object, port_name: str) -> list[tuple[str, int]]:
    """Return the ready addresses that serve the port called *port_name*."""
    return [
        (address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if (port.get("name") or "") == port_name
        for address in subset.get("addresses") or ()
    ]
