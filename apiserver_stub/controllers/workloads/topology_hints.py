"""Hints of endpoints: the zones and nodes whose clients should use them. No I/O.

spec: gate.TopologyAwareHints; the field ``trafficDistribution`` of Services.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.views import NodeView
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import parse_quantity

CLOSE, SAME_ZONE, SAME_NODE = "PreferClose", "PreferSameZone", "PreferSameNode"
"""Values of ``trafficDistribution``; the first two are synonyms."""
_OVERLOAD = 0.2
"""Share by which the load of an endpoint may exceed the average."""


def zone_cpus(node: NodeView, identity: Identity) -> tuple[str, float] | None:
    """Return the zone of *node* and its allocatable CPUs, which may be unknown.

    ``None`` if no clients are expected there: the node is not ready, or belongs to the control plane.
    """
    labels = node.metadata.labels or {}
    control_plane = {identity.label(name, "node-role") for name in ("control-plane", "master")}
    if control_plane & labels.keys() or node.condition("Ready") != "True":
        return None
    cpu = parse_quantity((node.status.allocatable or {}).get("cpu", "0"))
    return labels.get(identity.label("zone", "topology"), ""), cpu.nanos / 1e9


def zone_shares(nodes: Iterable[NodeView], identity: Identity) -> dict[str, float]:
    """Return the share of each zone in the CPUs of *nodes*, between 0 and 1; empty if a node's are unknown."""
    cpus: dict[str, float] = {}
    for node in nodes:
        found = zone_cpus(node, identity)
        if found is None:
            continue
        zone, cpu = found
        if not zone or not cpu:
            return {}
        cpus[zone] = cpus.get(zone, 0.0) + cpu
    total = sum(cpus.values())
    return {zone: cpu / total for zone, cpu in sorted(cpus.items())}


class UnavailableError(Exception):
    """Hints in proportion to CPUs would overload endpoints, or cannot be determined; the text is the reason."""


def is_proportional(service: Object, identity: Identity) -> bool:
    """Return whether an annotation of *service* requests hints in proportion to the CPUs of the zones."""
    annotations = service["metadata"].get("annotations") or {}
    names = (identity.label("topology-aware-hints", "service"), identity.label("topology-mode", "service"))
    return any(annotations.get(name) in ("Auto", "auto") for name in names)


def set_close(distribution: str | None, endpoints: Iterable[Object]) -> None:
    """Set the hints of *endpoints* for ``trafficDistribution``: the zone, and the node, of each endpoint itself."""
    if distribution not in (CLOSE, SAME_ZONE, SAME_NODE):
        return
    for endpoint in endpoints:
        hints = {}
        if zone := endpoint.get("zone"):
            hints["forZones"] = [{"name": zone}]
        if distribution == SAME_NODE and (node := endpoint.get("nodeName")):
            hints["forNodes"] = [{"name": node}]
        if hints and _is_ready(endpoint):
            endpoint["hints"] = hints


def set_proportional(shares: Mapping[str, float], endpoints: Sequence[Object]) -> None:
    """Set the hints of *endpoints* so that each zone has endpoints in proportion to its CPUs.

    An endpoint has the hint of another zone only if its own zone has too many endpoints.

    :param shares: see :func:`zone_shares`.
    :raises UnavailableError: no endpoint has hints.
    """
    ready = [endpoint for endpoint in endpoints if _is_ready(endpoint)]
    desired = _allocate(shares, len(ready))
    if not all(endpoint.get("zone") for endpoint in ready):
        raise UnavailableError("One or more endpoints do not have a zone specified")
    assigned = [str(endpoint["zone"]) for endpoint in ready]
    _balance(assigned, desired)
    for endpoint, zone in zip(ready, assigned, strict=True):
        endpoint["hints"] = {"forZones": [{"name": zone}]}


def _allocate(shares: Mapping[str, float], endpoints: int) -> dict[str, tuple[int, float]]:
    """Return the minimum and the desired number of endpoints of each zone."""
    counts = f"({endpoints} endpoints, {len(shares)} zones)"
    if not shares:
        raise UnavailableError(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
        )
    if len(shares) < 2:
        raise UnavailableError("Nodes only ready in one zone")
    if len(shares) > endpoints:
        raise UnavailableError(f"Insufficient number of endpoints {counts}")
    found = {}
    for zone, share in shares.items():
        minimum = math.ceil(share * endpoints / (1 + _OVERLOAD))
        found[zone] = minimum, max(share * endpoints, minimum)
    if sum(minimum for minimum, _ in found.values()) > endpoints:
        raise UnavailableError(
            f"Unable to allocate minimum required endpoints to each zone without exceeding overload threshold {counts}"
        )
    return found


def _balance(assigned: list[str], desired: Mapping[str, tuple[int, float]]) -> None:
    """Move endpoints in *assigned* from zones with too many to zones with too few of them."""
    counts = Counter(dict.fromkeys(desired, 0))
    counts.update(assigned)
    while True:
        surplus = {zone: counts[zone] - share for zone, (_, share) in desired.items()}
        # No client is in these zones, so none of their endpoints stay there.
        others = [zone for zone, count in counts.items() if count and zone not in desired]
        lowest = [zone for zone, (minimum, _) in desired.items() if counts[zone] < minimum]
        receiver = lowest[0] if lowest else min(surplus, key=surplus.__getitem__)
        if others:
            giver = others[0]
        elif lowest:
            givers = [zone for zone, (minimum, _) in desired.items() if counts[zone] > minimum]
            giver = max(givers, key=surplus.__getitem__)
        else:
            giver = max(surplus, key=surplus.__getitem__)
            if surplus[giver] < 1 or surplus[receiver] > -1:
                return
        # The last one, so that endpoints which exist for longer keep their zones.
        position = len(assigned) - 1 - assigned[::-1].index(giver)
        assigned[position] = receiver
        counts[giver] -= 1
        counts[receiver] += 1


def _is_ready(endpoint: Object) -> bool:
    return dig(endpoint, ("conditions", "ready")) is not False
