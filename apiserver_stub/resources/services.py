"""Services and their endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.nodes.proxy import proxy_service
from apiserver_stub.objects import Object, dig
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import PROXY_VERBS, Column, Resource, Strategy, Subresource
from apiserver_stub.resources.service_addresses import ServiceAddresses, ServiceReservation, Use, used_by
from apiserver_stub.resources.service_families import keep_given, settle
from apiserver_stub.status import Cause, invalid_value, required
from apiserver_stub.strategic import SERVICE
from apiserver_stub.validation.names import service_name_problems

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from apiserver_stub.store import Store


class ServiceStrategy(Strategy):
    """Ports are there and have numbers; a cluster address once given stays."""

    reserves = True

    def __init__(self, addresses: ServiceAddresses) -> None:
        self.addresses = addresses

    def default(self, new: Object) -> None:
        spec = new.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
            if not spec.get("clusterIP") and spec.get("clusterIPs"):
                spec["clusterIP"] = spec["clusterIPs"][0]
        if spec["type"] in ("NodePort", "LoadBalancer"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port["targetPort"] = port.get("targetPort") or port.get("port")

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"loadBalancer": {}}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            keep_given(new, old)

    async def reserve(
        self, store: Store, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> ServiceReservation:
        before = used_by(old) if old is not None else Use((), ())
        reservation = ServiceReservation(self.addresses, store, before, dry_run=dry_run)
        if new is not None and (old is None or not _changes_address(new, old)):
            try:
                await settle(new, reservation, old)
            except Exception:
                await reservation.release()
                raise
        reservation.leave(used_by(new) if new is not None else Use((), ()))
        return reservation

    def validate(self, new: Object) -> list[Cause]:
        spec = new["spec"]
        ports = spec.get("ports") or []
        causes = []
        if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
            causes.append(required("spec.ports"))
        for index, port in enumerate(ports):
            number = port.get("port")
            if not isinstance(number, int) or not 1 <= number <= 65535:
                causes.append(
                    invalid_value(f"spec.ports[{index}].port", number or 0, "must be between 1 and 65535, inclusive")
                )
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = self.validate(new) if not subresource else []
        if not subresource and _changes_address(new, old):
            given = new["spec"].get("clusterIPs") or [new["spec"].get("clusterIP")]
            shown = "[]string{" + ", ".join(f'"{item}"' for item in given) + "}"
            text = f"Invalid value: {shown}: may not change once set"
            causes.append(Cause("FieldValueInvalid", text, "spec.clusterIPs[0]"))
        return causes


def _changes_address(new: Object, old: Object) -> bool:
    before, after = dig(old, ("spec", "clusterIP")), dig(new, ("spec", "clusterIP"))
    return bool(before) and after != before and dig(new, ("spec", "type")) != "ExternalName"


class EndpointsStrategy(Strategy):
    """Ports are of TCP unless they say otherwise."""

    def default(self, new: Object) -> None:
        for subset in new.get("subsets") or ():
            for port in subset.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"


def resources(options: Options) -> list[Resource]:
    addresses = ServiceAddresses(options.service_networks, options.service_node_port_range)
    return [
        Resource(
            "",
            "v1",
            "Service",
            "services",
            short_names=("svc",),
            categories=("all",),
            strategy=ServiceStrategy(addresses),
            subresources=(
                Subresource("proxy", PROXY_VERBS, "ServiceProxyOptions", stream=proxy_service),
                Subresource("status"),
            ),
            columns=(
                NAME,
                at("Type", "spec.type"),
                at("Cluster-IP", "spec.clusterIP"),
                Column("External-IP", _external),
                Column("Port(s)", _ports),
                AGE,
                Column("Selector", _selector, wide=True),
            ),
            patch_schema=SERVICE,
            storage_key="services/specs",
            create_on_update=True,
            returns_deleted=True,
            name_problems=service_name_problems,
        ),
        Resource(
            "",
            "v1",
            "Endpoints",
            "endpoints",
            strategy=EndpointsStrategy(),
            short_names=("ep",),
            columns=(NAME, Column("Endpoints", _endpoints), AGE),
            storage_key="services/endpoints",
            create_on_update=True,
        ),
    ]


def _external(service: Object) -> str:
    if dig(service, ("spec", "type")) == "ExternalName":
        return str(dig(service, ("spec", "externalName")) or "<none>")
    return ",".join(dig(service, ("spec", "externalIPs")) or ()) or "<none>"


def _ports(service: Object) -> str:
    ports = []
    for port in dig(service, ("spec", "ports")) or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _selector(service: Object) -> str:
    selector = dig(service, ("spec", "selector")) or {}
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items())) or "<none>"


def _endpoints(obj: Object) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in obj.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or "<none>"
