"""Services and Endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting import services as defaulting
from apiserver_stub.kinds.address_allocation import ServiceName
from apiserver_stub.kinds.address_objects import AddressObjects
from apiserver_stub.kinds.columns import AGE, NAME, at, first_three, load_balancer_addresses
from apiserver_stub.kinds.registry import PROXY_VERBS, Column, Deprecation, Resource, Strategy, Subresource
from apiserver_stub.kinds.service_allocation import allocate
from apiserver_stub.kinds.service_allocators import ServiceAllocations, ServiceAllocators, ServiceReservation, used_by
from apiserver_stub.kinds.versions import effective
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.endpoints import subset_warnings, validate_subsets
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.services import (
    EARLY_SERVICE_RULES,
    ServiceRules,
    balancer_warnings,
    service_name_rule,
    service_warnings,
    validate_balancer_status,
    validate_service,
    validate_service_update,
)

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from apiserver_stub.storage import Store
    from nodeagent.base.identity import Identity


class ServiceStrategy(Strategy):
    """Services; cluster IPs and node ports are allocated as the type requires."""

    reserves = True

    def __init__(
        self, addresses: ServiceAllocators, identity: Identity, rules: ServiceRules = EARLY_SERVICE_RULES
    ) -> None:
        self._identity, self._rules = identity, rules
        self.addresses = addresses

    def default(self, new: Object) -> None:
        defaulting.SERVICE.apply(new)
        self.default_status(new)

    def default_status(self, new: Object) -> None:
        """Set the mode of the addresses of load balancers (spec: gate.LoadBalancerIPMode)."""
        if self._rules.ip_modes and dig(new, ("spec", "type")) == "LoadBalancer":
            for point in dig(new, ("status", "loadBalancer", "ingress")) or ():
                if point.get("ip"):
                    point.setdefault("ipMode", "VIP")

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"loadBalancer": {}}
        if not self._rules.distributions:
            new["spec"].pop("trafficDistribution", None)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource:
            self._drop_ip_modes(new, old)
            return
        if not self._rules.distributions and "trafficDistribution" not in old["spec"]:
            new["spec"].pop("trafficDistribution", None)
        if new["spec"]["type"] != "LoadBalancer":
            new["status"] = {**new["status"], "loadBalancer": {}}

    def _drop_ip_modes(self, new: Object, old: Object) -> None:
        path = ("status", "loadBalancer", "ingress")
        is_used = any("ipMode" in point for point in dig(old, path) or ())
        if not self._rules.ip_modes and not is_used:
            for point in dig(new, path) or ():
                point.pop("ipMode", None)

    async def reserve(
        self, store: Store, new: Object | None, old: Object | None, *, dry_run: bool = False
    ) -> ServiceReservation:
        before = used_by(old) if old is not None else ServiceAllocations((), ())
        metadata = (new or old or {}).get("metadata") or {}
        service = ServiceName(metadata.get("namespace", ""), metadata.get("name", ""))
        reservation = ServiceReservation(self.addresses, store, service, before, dry_run=dry_run)
        if new is not None:
            try:
                await allocate(new, reservation, old)
            except Exception:
                await reservation.release()
                raise
        reservation.leave(used_by(new) if new is not None else ServiceAllocations((), ()))
        return reservation

    def validate(self, new: Object) -> list[Cause]:
        return validate_service(new, self._identity, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if not subresource:
            return validate_service_update(new, old, self._identity, self._rules)
        path = ("status", "loadBalancer")
        balancer, before = dig(new, path) or {}, dig(old, path)
        is_balancer = old["spec"]["type"] == "LoadBalancer" or self._rules.any_type_has_balancer
        return validate_balancer_status(balancer, "status.loadBalancer", self._rules, before, is_balancer=is_balancer)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return service_warnings(new, self._identity, self._rules.addresses)

    def status_warnings(self, new: Object) -> list[str]:
        balancer = dig(new, ("status", "loadBalancer")) or {}
        return balancer_warnings(balancer, "status.loadBalancer", self._rules.addresses)

    def canonicalize(self, new: Object, old: Object | None) -> None:
        if new["spec"]["type"] == "ExternalName":
            new["spec"].pop("internalTrafficPolicy", None)


class EndpointsStrategy(Strategy):
    """Endpoints: addresses and ports of the pods of a service."""

    def __init__(self, rules: AddressRules = EARLY_RULES) -> None:
        self._rules = rules

    def default(self, new: Object) -> None:
        defaulting.ENDPOINTS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_subsets(new.get("subsets") or [], self._rules)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return subset_warnings(new.get("subsets") or [], self._rules)


def resources(settings: KindSettings) -> list[Resource]:
    rules = ServiceRules.of(settings.gates, settings.compatibility_version)
    address_objects = None
    if settings.gates.enabled("MultiCIDRServiceAllocator"):
        address_objects = AddressObjects.of(settings.identity, settings.compatibility_version)
    addresses = ServiceAllocators(settings.service_networks, settings.service_node_ports, address_objects)
    return [
        Resource(
            "",
            "v1",
            "Service",
            "services",
            short_names=("svc",),
            categories=("all",),
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version) - 1),
            strategy=ServiceStrategy(addresses, settings.identity, rules),
            subresources=(
                Subresource("proxy", PROXY_VERBS, "ServiceProxyOptions"),
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
            storage_key="services/specs",
            create_on_update=True,
            returns_deleted=True,
            name_problems=service_name_rule(settings.gates),
        ),
        Resource(
            "",
            "v1",
            "Endpoints",
            "endpoints",
            strategy=EndpointsStrategy(rules.addresses),
            short_names=("ep",),
            columns=(NAME, Column("Endpoints", _endpoints), AGE),
            storage_key="services/endpoints",
            create_on_update=True,
            deprecation=effective(
                Deprecation("1.33", replacement=f"{settings.identity.group('discovery')}/v1 EndpointSlice"),
                settings.compatibility_version,
            ),
        ),
    ]


def _external(service: Object) -> str:
    kind, addresses = dig(service, ("spec", "type")), list(dig(service, ("spec", "externalIPs")) or ())
    if kind == "ExternalName":
        return str(dig(service, ("spec", "externalName")) or "<none>")
    if kind == "LoadBalancer":
        return ",".join([*load_balancer_addresses(service), *addresses]) or "<pending>"
    return ",".join(addresses) or "<none>"


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
    subsets = obj.get("subsets") or ()
    if not subsets:
        return "<none>"
    return first_three(
        [
            _host_port(address.get("ip", ""), port)
            for subset in subsets
            for port in subset.get("ports") or (None,)
            for address in subset.get("addresses") or ()
        ]
    )


def _host_port(host: str, port: Object | None) -> str:
    if port is None:
        return host
    return f"[{host}]:{port.get('port', 0)}" if ":" in host else f"{host}:{port.get('port', 0)}"
