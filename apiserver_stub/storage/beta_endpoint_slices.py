"""EndpointSlices in version v1beta1, in which kube-apiserver stores them before release 1.36. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.identity import Identity


def as_v1(item: Object, identity: Identity) -> Object:
    """Return the EndpointSlice *item* in version v1."""
    zone, node = identity.label("zone", "topology"), identity.label("hostname")
    endpoints = [_endpoint(endpoint, zone, node) for endpoint in item.get("endpoints") or ()]
    return {**item, "apiVersion": f"{identity.group('discovery')}/v1", "endpoints": endpoints}


def _endpoint(endpoint: Object, zone: str, node: str) -> Object:
    topology = dict(endpoint.get("topology") or {})
    found = {name: value for name, value in endpoint.items() if name != "topology"}
    if zone in topology:
        found["zone"] = topology.pop(zone)
    if node in topology and topology[node] == found.get("nodeName"):
        del topology[node]
    if topology:
        found["deprecatedTopology"] = topology
    return found
