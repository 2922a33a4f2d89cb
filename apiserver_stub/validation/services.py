"""Validation of services, except for their cluster addresses (:mod:`apiserver_stub.validation.cluster_ips`)."""

from __future__ import annotations

from collections.abc import Sequence

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
from apiserver_stub.validation.address_warnings import cidr_warnings, ip_warnings
from apiserver_stub.validation.addresses import parse_address, parse_cidr, validate_address, validate_remote_address
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
from nodeagent.base.names import label_problems, qualified_name_problems, subdomain_problems

_AFFINITIES = ("ClientIP", "None")
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_POLICIES = ("Cluster", "Local")
_AGENT_PORT = 10250
_MOST_AFFINITY_SECONDS = 86400
_BALANCER_ONLY = "may only be used when `type` is 'LoadBalancer'"
_NOT_FOR_NAMES = "may not be set for ExternalName services"
_RANGES_RULE = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "


def validate_service(service: Object, identity: Identity) -> list[Cause]:
    """Return the errors in a service, metadata aside."""
    spec = service["spec"]
    kind = spec["type"]
    causes = _validate_annotations(service["metadata"].get("annotations") or {}, identity)
    causes += _validate_type(spec, kind)
    causes += _validate_ports(spec)
    if selector := spec.get("selector"):
        causes += validate_labels(selector, "spec.selector")
    causes += _validate_affinity(spec)
    causes += validate_cluster_ips(spec)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        field = f"spec.externalIPs[{index}]"
        causes += validate_address(address, field) or validate_remote_address(address, field)
    if kind not in _TYPES:
        causes.append(not_supported("spec.type", kind, _TYPES))
    causes += _validate_repeated_ports(spec)
    causes += _validate_balancer(service, identity)
    causes += _validate_external_traffic(spec)
    if "internalTrafficPolicy" in spec and spec["internalTrafficPolicy"] not in _POLICIES:
        causes.append(not_supported("spec.internalTrafficPolicy", spec["internalTrafficPolicy"], _POLICIES))
    return causes


def validate_service_update(service: Object, old: Object, identity: Identity) -> list[Cause]:
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
    return causes + validate_service(service, identity)


def needs_health_port(spec: Object) -> bool:
    """Return whether nodes serve a health check for the load balancer."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def validate_balancer_status(status: Object, field: str, *, is_balancer: bool = True) -> list[Cause]:
    """Return the errors in the status of a load balancer, which only services of that type have."""
    points = status.get("ingress") or []
    if points and not is_balancer:
        return [forbidden_value(f"{field}.ingress", "may only be used when `spec.type` is 'LoadBalancer'")]
    causes = []
    for index, point in enumerate(points):
        path = f"{field}.ingress[{index}]"
        if (address := point.get("ip")) and parse_address(address) is None:
            causes.append(invalid_value(f"{path}.ip", address, "must be a valid IP address"))
        if host := point.get("hostname"):
            causes += invalid_each(f"{path}.hostname", host, subdomain_problems(host))
            if parse_address(host) is not None:
                causes.append(invalid_value(f"{path}.hostname", host, "must be a DNS name, not an IP address"))
    return causes


def service_warnings(service: Object, identity: Identity) -> list[str]:
    """Return the warnings about a valid service."""
    spec, warnings = service["spec"], []
    hints, mode = _topology_annotations(identity)
    if hints in (service["metadata"].get("annotations") or {}):
        warnings.append(f"annotation {hints} is deprecated, please use {mode} instead")
    if spec.get("clusterIP") not in (None, "", HEADLESS):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += ip_warnings(f"spec.clusterIPs[{index}]", address)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        warnings += ip_warnings(f"spec.externalIPs[{index}]", address)
    if address := spec.get("loadBalancerIP"):
        warnings += ip_warnings("spec.loadBalancerIP", address)
    for index, block in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        warnings += cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", block)
    if spec["type"] == "ExternalName":
        if spec.get("externalIPs"):
            warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    elif spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    return warnings


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


def _validate_balancer(service: Object, identity: Identity) -> list[Cause]:
    spec, annotations = service["spec"], service["metadata"].get("annotations") or {}
    is_balancer = spec["type"] == "LoadBalancer"
    causes: list[Cause] = []
    if ranges := spec.get("loadBalancerSourceRanges"):
        shown, field = f"[{' '.join(ranges)}]", "spec.LoadBalancerSourceRanges"
        causes += _validate_ranges(ranges, shown, field, is_balancer=is_balancer)
    elif (text := annotations.get(key := identity.label("load-balancer-source-ranges", "service.beta"))) is not None:
        field = f"metadata.annotations[{key}]"
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
