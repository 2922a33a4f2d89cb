"""Resolver of the Service of an API service to its cluster IP or one of its endpoints."""

from __future__ import annotations

import random

from apiserver_stub.apimachinery.objects import Object, decode, key_of
from apiserver_stub.storage import Store

SERVICES, ENDPOINTS = "core/services", "core/endpoints"
_WITH_ADDRESS = ("ClusterIP", "LoadBalancer", "NodePort")


class Unresolved(Exception):
    """The Service cannot be resolved to an address."""


def resolve(store: Store, namespace: str, name: str, port: int, *, by_endpoint: bool) -> tuple[str, int]:
    """Return the address and port to connect to (spec: opt.enable-aggregator-routing).

    :param by_endpoint: select a random endpoint instead of relying on the load balancing of the cluster IP.
    :raises Unresolved: the Service or port does not exist, or has no endpoints.
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
    return random.choice(found)  # noqa: S311 - not security-relevant


def find(store: Store, collection: str, namespace: str, name: str) -> Object | None:
    """Return a stored object, ``None`` if it does not exist."""
    record = store.collection(collection).get(key_of(namespace, name))
    return None if record is None else decode(record.data)


def name_of_port(spec: Object, port: int) -> str | None:
    """Return the name of the Service port *port*, ``None`` if the Service has no such port."""
    return next((item.get("name") or "" for item in spec.get("ports") or () if item.get("port") == port), None)


def endpoints_of(endpoints: Object, port_name: str) -> list[tuple[str, int]]:
    """Return the ready addresses of the port named *port_name*."""
    return [
        (address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if (port.get("name") or "") == port_name
        for address in subset.get("addresses") or ()
    ]
