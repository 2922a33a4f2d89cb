"""Validation of services, except for their cluster addresses (:mod:`apiserver_stub.validation.cluster_ips`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.defaulting.services import is_externally_accessible
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import parse_address, parse_cidr, validate_remote_address
from apiserver_stub.validation.cluster_ips import (
    HEADLESS,
    is_headless,
    validate_cluster_ips,
    validate_cluster_ips_update,
)
from apiserver_stub.validation.container_ports import (
    validate_port_number,
    validate_port_number_or_name,
    validate_protocol,
)
from apiserver_stub.validation.labels import validate_labels
from nodeagent.base.identity import Identity
from nodeagent.base.names import label_problems, qualified_name_problems, service_name_problems, subdomain_problems
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from nodeagent.base.gates import FeatureGates

_AFFINITIES = ("ClientIP", "None")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_AGENT_PORT = 10250
_MOST_AFFINITY_SECONDS = 86400
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_NOT_FOR_NAMES = "may not be set for ExternalName services"
_RANGES_RULE = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "


_IP_MODES = ("Proxy", "VIP")
_CLOSE = "PreferClose"
_NEAR = ("PreferSameNode", "PreferSameZone")
_HEADLESS_WARNED, _EXTERNAL_IPS_DEPRECATED = Release(1, 34), Release(1, 36)
"""First releases that warn about ignored fields of headless services, and about external IPs."""
_CLOSE_DEPRECATED = Release(1, 34)


class ServiceRules(Struct, frozen=True):
    """Rules for services that depend on the release and feature gates."""

    addresses: AddressRules = EARLY_RULES
    ip_modes: bool = False
    """Load balancers report how they deliver packets (spec: gate.LoadBalancerIPMode)."""
    distributions: Sequence[str] = ()
    """Values of ``trafficDistribution``."""
    any_type_has_balancer: bool = False
    """Services of all types may have the status of a load balancer (spec: gate.AllowServiceLBStatusOnNonLB)."""

    @classmethod
    def of(cls, gates: FeatureGates, release: Release) -> ServiceRules:
        """Return the rules of *release*.

        spec: gate.LoadBalancerIPMode, gate.ServiceTrafficDistribution, gate.PreferSameTrafficDistribution
        """
        is_near = gates.enabled("PreferSameTrafficDistribution")
        near = (_CLOSE, _NEAR[1], _NEAR[0]) if is_near else (_CLOSE,)
        return cls(
            AddressRules.of(gates, release),
            gates.enabled("LoadBalancerIPMode"),
            near if gates.enabled("ServiceTrafficDistribution") else (),
            gates.enabled("AllowServiceLBStatusOnNonLB"),
        )


def service_name_rule(gates: FeatureGates) -> Callable[[str], list[str]]:
    """Return the rule for names of services (spec: gate.RelaxedServiceNameValidation)."""
    return label_problems if gates.enabled("RelaxedServiceNameValidation") else service_name_problems


EARLY_SERVICE_RULES = ServiceRules()
"""Rules of the oldest release, without its feature gates."""


def validate_service(
    service: Object, identity: Identity, rules: ServiceRules = EARLY_SERVICE_RULES, old: Object | None = None
) -> list[Cause]:
    """Return the errors in a service, metadata aside; *old* is the stored one, ``None`` for a new service."""
    spec = service["spec"]
    before = (old or {}).get("spec") or {}
    kind = spec["type"]
    causes = _validate_annotations(service["metadata"].get("annotations") or {}, identity)
    causes += _validate_type(spec, kind)
    causes += _validate_ports(spec)
    if selector := spec.get("selector"):
        causes += validate_labels(selector, "spec.selector")
    causes += _validate_affinity(spec)
    causes += validate_cluster_ips(spec, rules.addresses, before.get("clusterIPs") or ())
    for index, address in enumerate(spec.get("externalIPs") or ()):
        field = f"spec.externalIPs[{index}]"
        invalid = rules.addresses.validate(address, field, before.get("externalIPs") or ())
        causes += invalid or validate_remote_address(address, field)
    if kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES))
    causes += _validate_repeated_ports(spec)
    causes += _validate_balancer(service, identity, rules.addresses, old)
    causes += _validate_external_traffic(spec)
    if "internalTrafficPolicy" in spec and spec["internalTrafficPolicy"] not in _POLICIES:
        causes.append(not_supported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], _POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and rules.distributions and distribution not in rules.distributions:
        causes.append(not_supported("spec.trafficDistribution", distribution, rules.distributions))
    return causes


def validate_service_update(
    service: Object, old: Object, identity: Identity, rules: ServiceRules = EARLY_SERVICE_RULES
) -> list[Cause]:
    """Return the errors in a changed service, metadata aside."""
    spec, before = service["spec"], old["spec"]
    causes = validate_cluster_ips_update(spec, before)
    name = spec.get("loadBalancerClass")
    if spec["type"] == before.get("type") == "LoadBalancer" and name != before.get("loadBalancerClass"):
        causes.append(invalid_value("spec.loadBalancerClass", name, "may not change once set"))
    causes += _validate_class(spec)
    port = spec.get("healthCheckNodePort")
    if needs_health_port(before) and needs_health_port(spec) and port != before.get("healthCheckNodePort"):
        causes.append(forbidden_value("spec.healthCheckNodePort", "field is immutable"))
    return causes + validate_service(service, identity, rules, old)


def needs_health_port(spec: Object) -> bool:
    """Return whether nodes serve a health check for the load balancer."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def validate_balancer_status(
    status: Object,
    field: str,
    rules: ServiceRules = EARLY_SERVICE_RULES,
    old: Object | None = None,
    *,
    is_balancer: bool = True,
) -> list[Cause]:
    """Return the errors in the status of a load balancer, which only services of that type have."""
    points = status.get("ingress") or []
    stored = [point.get("ip") or "" for point in (old or {}).get("ingress") or ()]
    if points and not is_balancer:
        return [forbidden_value(f"{field}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]
    causes = []
    for index, point in enumerate(points):
        path = f"{field}.ingress[{index}]"
        address = point.get("ip") or ""
        if address and rules.addresses.is_revised:
            causes += rules.addresses.validate(address, f"{path}.ip", stored)
        elif address and parse_address(address) is None:
            causes.append(invalid_value(f"{path}.ip", address, "must be a valid IP address"))
        if rules.ip_modes:
            causes += _validate_ip_mode(point.get("ipMode"), f"{path}.ipMode", has_address=bool(address))
        if host := point.get("hostname"):
            causes += invalid_each(f"{path}.hostname", host, subdomain_problems(host))
            if parse_address(host) is not None:
                causes.append(invalid_value(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return causes


def balancer_warnings(status: Object, field: str, rules: AddressRules) -> list[str]:
    """Return the warnings about addresses in the status of a load balancer."""
    if not rules.is_revised:
        return []
    return [
        warning
        for index, point in enumerate(status.get("ingress") or ())
        if (address := point.get("ip"))
        for warning in rules.warnings(f"{field}.ingress[{index}]", address)
    ]


def service_warnings(service: Object, identity: Identity, rules: AddressRules = EARLY_RULES) -> list[str]:
    """Return the warnings about a valid service."""
    spec, warnings = service["spec"], []
    headless = spec["type"] == "ClusterIP" and spec.get("clusterIP") == HEADLESS
    hints, mode = _topology_annotations(identity)
    if hints in (service["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {hints} is deprecated, please use {mode} instead")
    if spec.get("clusterIP") not in (None, "", HEADLESS):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += rules.warnings(f"spec.clusterIPs[{index}]", address)
    if headless and rules.release >= _HEADLESS_WARNED:
        warnings += _headless_warnings(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        warnings += rules.warnings(f"spec.externalIPs[{index}]", address)
    is_external = bool(spec.get("externalIPs")) and not headless and spec["type"] != "ExternalName"
    if is_external and rules.release >= _EXTERNAL_IPS_DEPRECATED:
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if address := spec.get("loadBalancerIP"):
        warnings += rules.warnings("spec.loadBalancerIP", address)
    for index, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += rules.block_warnings(f"spec.loadBalancerSourceRanges[{index}]", block)
    if spec["type"] == "ExternalName":
        if spec.get("externalIPs"):
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    elif spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == _CLOSE and rules.release >= _CLOSE_DEPRECATED:
        warnings.append(f'spec.trafficDistribution: "{_CLOSE}" is deprecated; use "{_NEAR[1]}"')
    return warnings


def _headless_warnings(spec: Object) -> list[str]:
    ignored = [f"spec.{name}" for name in ("loadBalancerIP", "externalIPs") if spec.get(name)]
    if spec.get("sessionAffinity") != "None":
        ignored.append("spec.SessionAffinity")
    return [f"{name} is ignored for headless services" for name in ignored]


def _validate_ip_mode(mode: str | None, field: str, *, has_address: bool) -> list[Cause]:
    if mode is None:
        return [required(field, "must be specified when `ip` is set")] if has_address else []
    if not has_address:
        return [forbidden_value(field, "may not be specified when `ip` is not set")]
    return [] if mode in _IP_MODES else [not_supported(field, mode, _IP_MODES)]


def _validate_annotations(annotations: Object, identity: Identity) -> list[Cause]:
    hints_key, mode_key = _topology_annotations(identity)
    hints, mode = annotations.get(hints_key), annotations.get(mode_key)
    if hints is None or mode is None or hints == mode:
        return []
    detail = f"must match annotations[{hints_key}] when both are specified"
    return [invalid_value(f"metadata.annotations[{mode_key}]", mode, detail)]


def _topology_annotations(identity: Identity) -> tuple[str, str]:
    """Return the annotations for topology-aware routing: the deprecated one and its replacement."""
    return identity.label("topology-aware-hints", "service"), identity.label("topology-mode", "service")


def _validate_type(spec: Object, kind: str) -> list[Cause]:
    ports = spec.get("ports") or []
    causes = []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind == "LoadBalancer":
        detail = f"may not expose port {_AGENT_PORT} externally since it is used by kubelet"
        causes += [
            invalid_value(f"spec.ports[{index}]", _AGENT_PORT, detail)
            for index, port in enumerate(ports)
            if port.get("port") == _AGENT_PORT
        ]
    if kind in ("LoadBalancer", "NodePort") and is_headless(spec):
        causes.append(invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        causes += [
            forbidden_value(f"spec.{name}", _NOT_FOR_NAMES)
            for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(name) or (name == "ipFamilyPolicy" and name in spec)
        ]
        host = (spec.get("externalName") or "").removesuffix(".")
        field = "spec.externalName"
        causes += invalid_each(field, host, subdomain_problems(host)) if host else [required(field)]
    return causes


def _validate_ports(spec: Object) -> list[Cause]:
    ports = spec.get("ports") or []
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"spec.ports[{index}]", port.get("name")
        if name:
            causes += invalid_each(f"{field}.name", name, label_problems(name))
            if name in names:
                causes.append(duplicate(f"{field}.name", name))
            names.add(name)
        elif len(ports) > 1:
            causes.append(required(f"{field}.name"))
        causes += validate_port_number(port.get("port") or 0, f"{field}.port")
        causes += validate_protocol(port.get("protocol") or "", f"{field}.protocol")
        causes += validate_port_number_or_name(port.get("targetPort") or 0, f"{field}.targetPort")
        if (protocol := port.get("appProtocol")) is not None:
            causes += invalid_each(f"{field}.appProtocol", protocol, qualified_name_problems(protocol))
    return causes


def _validate_affinity(spec: Object) -> list[Cause]:
    affinity, config, field = spec["sessionAffinity"], spec.get("sessionAffinityConfig"), "spec.sessionAffinityConfig"
    if affinity not in _AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    if affinity == "None":
        return [forbidden_value(field, "must not be set when session affinity is None")] if config is not None else []
    seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    if seconds is None:
        return [required(field, "when session affinity type is ClientIP")]
    if 0 < seconds <= _MOST_AFFINITY_SECONDS:
        return []
    detail = f"must be greater than 0 and less than {_MOST_AFFINITY_SECONDS}"
    return [invalid_value(f"{field}.clientIP.timeoutSeconds", seconds, detail)]


def _validate_repeated_ports(spec: Object) -> list[Cause]:
    ports = spec.get("ports") or []
    causes: list[Cause] = []
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}].nodePort"
        if spec["type"] == "ClusterIP" and port.get("nodePort"):
            causes.append(forbidden_value(field, "may not be used when `type` is 'ClusterIP'"))
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if number := port.get("nodePort"):
            if (key := (port.get("protocol") or "", number)) in node_ports:
                causes.append(duplicate(f"spec.ports[{index}].nodePort", number))
            node_ports.add(key)
    numbers: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if (key := (port.get("protocol") or "", port.get("port") or 0)) in numbers:
            shown = (
                f'core.ServicePort{{Name:"", Protocol:"{key[0]}", AppProtocol:(*string)(nil), Port:{key[1]}, '
                'TargetPort:intstr.IntOrString{Type:0, IntVal:0, StrVal:""}, NodePort:0}'
            )
            causes.append(Cause("FieldValueDuplicate", f"Duplicate value: {shown}", f"spec.ports[{index}]"))
        numbers.add(key)
    return causes


def _validate_balancer(service: Object, identity: Identity, rules: AddressRules, old: Object | None) -> list[Cause]:
    spec, annotations = service["spec"], service["metadata"].get("annotations") or {}
    is_balancer = spec["type"] == "LoadBalancer"
    causes: list[Cause] = []
    if ranges := spec.get("loadBalancerSourceRanges"):
        shown, field = f"[{' '.join(ranges)}]", "spec.LoadBalancerSourceRanges"
        if rules.is_revised:
            stored = [text.strip() for text in (old or {}).get("spec", {}).get("loadBalancerSourceRanges") or ()]
            causes += [] if is_balancer else [forbidden_value(field, _BALANCER_ONLY)]
            for index, text in enumerate(ranges):
                causes += rules.validate_block(text.strip(), f"{field}[{index}]", stored)
        else:
            causes += _validate_ranges(ranges, shown, field, is_balancer=is_balancer)
    elif (text := annotations.get(key := identity.label("load-balancer-source-ranges", "service.beta"))) is not None:
        field = f"metadata.annotations[{key}]"
        before = ((old or {}).get("metadata") or {}).get("annotations") or {}
        if rules.is_revised:
            causes += [] if is_balancer else [forbidden_value(field, _BALANCER_ONLY)]
            if before.get(key) != text and text.strip():
                for block in text.split(","):
                    causes += rules.validate_block(block.strip(), field)
        else:
            causes += _validate_ranges((text.strip() or "0.0.0.0/0").split(","), text, field, is_balancer=is_balancer)
    if "allocateLoadBalancerNodePorts" in spec and not is_balancer:
        causes.append(forbidden_value("spec.allocateLoadBalancerNodePorts", _BALANCER_ONLY))
    return causes + _validate_class(spec)


def _validate_ranges(ranges: Sequence[str], shown: str, field: str, *, is_balancer: bool) -> list[Cause]:
    causes = [] if is_balancer else [forbidden_value(field, _BALANCER_ONLY)]
    if any(parse_cidr(text.strip()) is None for text in ranges):
        causes.append(invalid_value(field, shown, _RANGES_RULE))
    return causes


def _validate_class(spec: Object) -> list[Cause]:
    name, field = spec.get("loadBalancerClass"), "spec.loadBalancerClass"
    if name is None:
        return []
    if spec["type"] != "LoadBalancer":
        return [forbidden_value(field, _BALANCER_ONLY)]
    return invalid_each(field, name, qualified_name_problems(name))


def _validate_external_traffic(spec: Object) -> list[Cause]:
    policy, field = spec.get("externalTrafficPolicy") or "", "spec.externalTrafficPolicy"
    causes = []
    if not is_externally_accessible(spec):
        if policy:
            causes.append(invalid_value(field, policy, "may only be set for externally-accessible services"))
    elif policy not in _POLICIES:
        causes.append(not_supported(field, policy, _POLICIES) if policy else required(field))
    port, field = spec.get("healthCheckNodePort") or 0, "spec.healthCheckNodePort"
    if needs_health_port(spec):
        return causes + (validate_port_number(port, field) if port else [required(field)])
    if port:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid_value(field, port, detail))
    return causes
