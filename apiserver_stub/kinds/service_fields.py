"""Fields of services that depend on the type: keep allocated values, drop unused ones. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.services import is_externally_accessible
from apiserver_stub.validation.services import needs_health_port

_NODE_PORT_TYPES = ("LoadBalancer", "NodePort")
_ADDRESS_FIELDS = (("clusterIP", "clusterIPs"), ("ipFamilies",), ("ipFamilyPolicy",))


def needs_cluster_ip(spec: Object) -> bool:
    """Return whether services of this type have cluster IPs."""
    return spec.get("type") != "ExternalName"


def needs_node_ports(spec: Object) -> bool:
    """Return whether services of this type have node ports."""
    return spec.get("type") in _NODE_PORT_TYPES


def allocates_node_ports(spec: Object) -> bool:
    """Return whether node ports are allocated for ports without one."""
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def node_ports(spec: Object) -> list[int]:
    """Return the node ports of the service's ports."""
    return [port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")]


def normalize_new(spec: Object) -> None:
    """Set ``clusterIPs`` from ``clusterIP`` if it is not set."""
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def keep_allocated(spec: Object, before: Object) -> None:
    """Set the allocated values of *before* that *spec* omits."""
    if needs_cluster_ip(before) and needs_cluster_ip(spec):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if needs_node_ports(before) and needs_node_ports(spec):
        taken = {*node_ports(before)} & {*node_ports(spec)}
        numbers = {port.get("name") or "": port.get("nodePort") or 0 for port in before.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = numbers.get(port.get("name") or "", 0)
            if not port.get("nodePort") and number and number not in taken:
                port["nodePort"] = number
    if needs_health_port(before) and needs_health_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort") or 0
    _normalize(spec, before)


def _normalize(spec: Object, before: Object) -> None:
    """Adapt ``clusterIPs`` to a changed ``clusterIP``, as older clients set only the latter."""
    one, other = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    if before.get("clusterIPs") and not spec.get("clusterIPs") and one == other:
        spec["clusterIPs"] = before["clusterIPs"]
    if one != other and (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or []):
        if not one:
            spec.pop("clusterIPs", None)
        else:
            spec["clusterIPs"] = [one]


def drop_unused(spec: Object, before: Object) -> None:
    """Drop the fields that the new type of the service does not have, unless the client changed them too."""
    if needs_cluster_ip(before) and not needs_cluster_ip(spec):
        for names in _ADDRESS_FIELDS:
            if all((spec.get(name) or None) == (before.get(name) or None) for name in names):
                for name in names:
                    spec.pop(name, None)
    if needs_node_ports(before) and not needs_node_ports(spec) and {*node_ports(spec)} <= {*node_ports(before)}:
        for port in spec.get("ports") or ():
            port.pop("nodePort", None)
    for name, has in (
        ("healthCheckNodePort", needs_health_port),
        ("allocateLoadBalancerNodePorts", _is_balancer),
        ("loadBalancerClass", _is_balancer),
        ("externalTrafficPolicy", is_externally_accessible),
    ):
        if has(before) and not has(spec) and spec.get(name) == before.get(name):
            spec.pop(name, None)


def _is_balancer(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer"
