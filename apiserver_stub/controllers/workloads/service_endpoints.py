"""Endpoints of a Service: addresses and ports of the pods that its selector selects. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.controllers.views import FINISHED
from apiserver_stub.validation.addresses import family, parse_address
from nodeagent.base.structs import Struct

MAX_IN_SLICE = 100


class Port(Struct, frozen=True):
    """Port of the pods of a Service."""

    name: str
    number: int
    protocol: str
    app_protocol: str | None = None

    def render(self, *, always_named: bool) -> Object:
        """Return the JSON form; endpoint slices contain empty names."""
        port: Object = {"name": self.name} if self.name or always_named else {}
        port |= {"port": self.number, "protocol": self.protocol}
        return port | ({"appProtocol": self.app_protocol} if self.app_protocol else {})


def ports_of(service: Object, pod: Object) -> tuple[Port, ...]:
    """Return the ports of *pod* for *service*; those with a name that the pod does not have are left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol") or "TCP"
        number = _number(port, pod, protocol)
        if number is not None:
            found.append(Port(port.get("name") or "", number, protocol, port.get("appProtocol")))
    return tuple(found)


def _number(port: Object, pod: Object, protocol: str) -> int | None:
    target = port.get("targetPort")
    if not isinstance(target, str):
        return int(target or port["port"])
    for container in dig(pod, ("spec", "containers")) or ():
        for item in container.get("ports") or ():
            if item.get("name") == target and (item.get("protocol") or "TCP") == protocol:
                return int(item["containerPort"])
    return None


def is_endpoint(pod: Object, *, terminating: bool) -> bool:
    """Return whether *pod* can be an endpoint; one that is being deleted only if *terminating*."""
    if dig(pod, ("status", "phase")) in FINISHED or not dig(pod, ("status", "podIP")):
        return False
    return terminating or "deletionTimestamp" not in pod["metadata"]


def is_ready(pod: Object) -> bool:
    conditions = dig(pod, ("status", "conditions")) or ()
    return any(item.get("type") == "Ready" and item.get("status") == "True" for item in conditions)


def subsets(service: Object, pods: Iterable[Object]) -> list[Object]:
    """Return the subsets of the Endpoints of *service*."""
    publishes = bool(service["spec"].get("publishNotReadyAddresses"))
    groups: dict[tuple[Port, ...], dict[str, list[Object]]] = {}
    for pod in pods:
        if not is_endpoint(pod, terminating=publishes):
            continue
        ports = ports_of(service, pod)
        if not ports and service["spec"].get("ports"):
            continue
        kind = "addresses" if publishes or is_ready(pod) else "notReadyAddresses"
        address = {"ip": dig(pod, ("status", "podIP")), **_identity(service, pod)}
        groups.setdefault(ports, {}).setdefault(kind, []).append(address)
    result = []
    for ports, addresses in sorted(groups.items(), key=lambda item: [(port.name, port.number) for port in item[0]]):
        subset: Object = {
            kind: sorted(addresses[kind], key=lambda item: (item["ip"], item["targetRef"]["uid"]))
            for kind in ("addresses", "notReadyAddresses")
            if kind in addresses
        }
        if ports:
            subset["ports"] = [port.render(always_named=False) for port in ports]
        result.append(subset)
    return result


def slice_endpoints(
    service: Object, pods: Iterable[Object], ip_family: str, zones: dict[str, str]
) -> dict[tuple[Port, ...], list[Object]]:
    """Return the endpoints of the slices of *service* for one IP family, by their ports.

    :param zones: zones by node.
    """
    publishes = bool(service["spec"].get("publishNotReadyAddresses"))
    groups: dict[tuple[Port, ...], list[Object]] = {}
    for pod in pods:
        if not is_endpoint(pod, terminating=True):
            continue
        address = address_of(pod, ip_family)
        ports = ports_of(service, pod)
        if not address or (not ports and service["spec"].get("ports")):
            continue
        ready, terminating = is_ready(pod), "deletionTimestamp" in pod["metadata"]
        endpoint: Object = {
            "addresses": [address],
            "conditions": {
                "ready": publishes or (ready and not terminating),
                "serving": publishes or ready,
                "terminating": terminating,
            },
            **_identity(service, pod),
        }
        if zone := zones.get(endpoint.get("nodeName") or ""):
            endpoint["zone"] = zone
        groups.setdefault(ports, []).append(endpoint)
    return groups


def address_of(pod: Object, ip_family: str) -> str:
    """Return the address of *pod* of one IP family, empty if it has none."""
    status = pod.get("status") or {}
    texts = [item.get("ip") or "" for item in status.get("podIPs") or ()] or [status.get("podIP") or ""]
    for text in texts:
        address = parse_address(text)
        if address is not None and family(address) == ip_family:
            return text
    return ""


def distribute(
    existing: Sequence[Object], desired: Sequence[Object]
) -> tuple[list[tuple[Object, list[Object]]], list[list[Object]]]:
    """Return the *existing* slices with their new endpoints, and the endpoints of slices to create.

    Endpoints stay in their slice, so that few slices change.
    """
    left = {_uid(item): item for item in desired}
    kept: list[tuple[Object, list[Object]]] = []
    for item in existing:
        endpoints = [new for old in item.get("endpoints") or () if (new := left.pop(_uid(old), None)) is not None]
        kept.append((item, endpoints))
    rest = list(left.values())
    for _, content in kept:
        room = MAX_IN_SLICE - len(content)
        content.extend(rest[:room])
        rest = rest[room:]
    return kept, [rest[start : start + MAX_IN_SLICE] for start in range(0, len(rest), MAX_IN_SLICE)]


def _uid(endpoint: Object) -> str:
    return f"{dig(endpoint, ('targetRef', 'uid')) or ''}/{(endpoint.get('addresses') or [''])[0]}"


def _identity(service: Object, pod: Object) -> Object:
    """Return the fields of an endpoint that name its pod and node."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    found: Object = {}
    if spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]:
        found["hostname"] = spec["hostname"]
    if spec.get("nodeName"):
        found["nodeName"] = spec["nodeName"]
    reference = {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    return {**found, "targetRef": reference}
