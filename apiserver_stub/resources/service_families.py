"""What a service is given: cluster addresses of the families that it asks for, and node ports."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.resources.range_allocation import Refused
from apiserver_stub.resources.service_addresses import ServiceReservation
from apiserver_stub.status import Cause, internal, invalid, invalid_value

_FAMILIES = {4: "IPv4", 6: "IPv6"}
_POLICY = "spec.ipFamilyPolicy"
HEADLESS = "None"


def has_addresses(spec: Object) -> bool:
    """Return whether a service is to have addresses of its own."""
    return spec.get("type") != "ExternalName" and spec.get("clusterIP") != HEADLESS


def has_node_ports(spec: Object) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def has_health_port(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def keep_given(new: Object, old: Object) -> None:
    """Give *new* what it leaves out and *old* had, and take away what its type does not have."""
    spec, before = new["spec"], old["spec"]
    if has_addresses(spec) and before.get("type") != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = before.get("clusterIP", "")
        if not spec.get("clusterIPs") and spec["clusterIP"] == before.get("clusterIP"):
            spec["clusterIPs"] = list(before.get("clusterIPs") or ())
        spec.setdefault("ipFamilyPolicy", before.get("ipFamilyPolicy"))
        if not spec.get("ipFamilies"):
            spec["ipFamilies"] = list(before.get("ipFamilies") or ())
        if spec["ipFamilyPolicy"] == "SingleStack":
            for name in ("clusterIPs", "ipFamilies"):
                if spec.get(name) == before.get(name):
                    spec[name] = spec[name][:1]
    elif spec.get("type") == "ExternalName" and before.get("type") != "ExternalName":
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"):
            if spec.get(name) == before.get(name):
                spec.pop(name, None)
    known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
    for port in spec.get("ports") or ():
        if has_node_ports(spec) and has_node_ports(before):
            if not port.get("nodePort") and known.get(port.get("name", "")):
                port["nodePort"] = known[port.get("name", "")]
        elif not has_node_ports(spec) and port.get("nodePort") in known.values():
            port.pop("nodePort", None)
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)
        spec.pop("allocateLoadBalancerNodePorts", None)
    if not has_health_port(spec) and spec.get("healthCheckNodePort") == before.get("healthCheckNodePort"):
        spec.pop("healthCheckNodePort", None)


async def settle(service: Object, reservation: ServiceReservation, old: Object | None = None) -> None:
    """Complete families, cluster addresses and node ports; those that *old* has are kept, others are taken.

    :raises ApiError: 422, they contradict each other or the cluster, or are not to be had; 500, none is left.
    :raises StoreUnavailable: they cannot be taken now.
    """
    spec = service["spec"]
    before = old["spec"] if old is not None else {}
    causes: list[Cause] = []
    if spec.get("type") != "ExternalName":
        causes = _settle_families(spec, [_FAMILIES[version] for version in reservation.ranges.networks])
        if not causes and has_addresses(spec):
            causes = await _settle_addresses(spec, reservation)
    if not causes:
        causes = await _settle_ports(spec, before, reservation)
    if not causes:
        await _settle_health_port(spec, before, reservation)
    if causes:
        raise invalid("", "Service", service["metadata"].get("name") or "", causes)


def _settle_families(spec: Object, served: list[str]) -> list[Cause]:
    given = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if spec.get("clusterIP") and given[0] != spec["clusterIP"]:
        return [invalid_value("spec.clusterIPs", given, "first value must match `clusterIP`")]
    spec["clusterIPs"] = given
    if given:
        spec["clusterIP"] = given[0]
    headless = spec.get("clusterIP") == HEADLESS
    anywhere = headless and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if anywhere else "SingleStack"
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    causes: list[Cause] = []
    if policy == "SingleStack" and (len(given) == 2 or len(families) == 2):
        what = "cluster IPs" if len(given) == 2 else "IP families"
        text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
        causes.append(invalid_value(_POLICY, policy, text))
    for index, text in enumerate(given if not headless else ()):
        try:
            family = _FAMILIES[ip_address(text).version]
        except ValueError:
            causes.append(invalid_value(f"spec.clusterIPs[{index}]", text, "must be a valid IP address"))
            continue
        if index >= len(families):
            families.append(family)
        elif families[index] != family:
            expected = f"expected an {families[index]} value as indicated by `ipFamilies[{index}]`"
            causes.append(invalid_value(f"spec.clusterIPs[{index}]", text, expected))
    if not anywhere:
        causes += [
            invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
            for index, family in enumerate(families)
            if family not in served
        ]
        if policy == "RequireDualStack" and len(served) < 2:
            text = "this cluster is not configured for dual-stack services"
            causes.append(invalid_value(_POLICY, policy, text))
    families = families or served[:1]
    if policy != "SingleStack" and len(families) < 2 and (anywhere or len(served) > 1):
        families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    spec["ipFamilies"] = families
    return causes


async def _settle_addresses(spec: Object, reservation: ServiceReservation) -> list[Cause]:
    kept = reservation.before.addresses
    versions = {family: version for version, family in _FAMILIES.items()}
    given, causes = list(spec.get("clusterIPs") or ()), []
    for index, family in enumerate(spec["ipFamilies"]):
        try:
            if index >= len(given):
                given.append(await reservation.take_address(versions[family]))
            elif given[index] not in kept:
                given[index] = await reservation.take_address(versions[family], given[index])
        except Refused as error:
            shown = "[]string{" + ", ".join(f'"{item}"' for item in given) + "}"
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown}: {error}", "spec.clusterIPs"))
    spec["clusterIPs"], spec["clusterIP"] = given, given[0]
    return causes


async def _settle_ports(spec: Object, before: Object, reservation: ServiceReservation) -> list[Cause]:
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        given = [(index, port) for index, port in enumerate(spec.get("ports") or ()) if port.get("nodePort")]
        text = f"may not be used when `type` is '{spec.get('type')}'"
        return [
            Cause("FieldValueForbidden", f"Forbidden: {text}", f"spec.ports[{index}].nodePort") for index, _ in given
        ]
    kept = {port["nodePort"] for port in before.get("ports") or () if port.get("nodePort")}
    ours: dict[int, Any] = {}
    causes = []
    # Those that are asked for come first, or one of them might be chosen for another port.
    for index, port in sorted(enumerate(spec.get("ports") or ()), key=lambda item: not item[1].get("nodePort")):
        number = port.get("nodePort") or 0
        if not number and not has_node_ports(spec):
            continue  # none unless one is asked for
        same = next((other for other in ours.values() if not number and other["port"] == port.get("port")), None)
        if same is not None and same.get("protocol") != port.get("protocol"):
            port["nodePort"] = same["nodePort"]  # one number for several protocols
            continue
        if number and (number in kept or number in ours):
            ours[number] = port
            continue
        try:
            port["nodePort"] = await reservation.take_port(number)
            ours[port["nodePort"]] = port
        except Refused as error:
            causes.append(invalid_value(f"spec.ports[{index}].nodePort", number, str(error)))
    return causes


async def _settle_health_port(spec: Object, before: Object, reservation: ServiceReservation) -> None:
    if not has_health_port(spec):
        return
    had = before.get("healthCheckNodePort") or 0
    wanted = spec.get("healthCheckNodePort") or had
    if wanted and wanted == had:
        spec["healthCheckNodePort"] = had
        return
    try:
        spec["healthCheckNodePort"] = await reservation.take_port(wanted)
    except Refused as error:
        raise internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {error}") from error
