"""Allocation of cluster IPs, node ports and health check node ports for services."""

from __future__ import annotations

from collections.abc import Callable

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, Cause, internal, invalid, invalid_value
from apiserver_stub.kinds.range_allocation import AllocationError
from apiserver_stub.kinds.service_allocators import ServiceReservation
from apiserver_stub.kinds.service_families import keeps_prefer_dual_stack, settle_families
from apiserver_stub.kinds.service_fields import (
    allocates_node_ports,
    drop_unused,
    keep_allocated,
    needs_cluster_ip,
    needs_node_ports,
    node_ports,
    normalize_new,
)
from apiserver_stub.validation.cluster_ips import is_headless
from apiserver_stub.validation.services import needs_health_port

_VERSIONS = {"IPv4": 4, "IPv6": 6}


async def allocate(service: Object, reservation: ServiceReservation, old: Object | None = None) -> None:
    """Set the IP families, cluster IPs and node ports; those of *old* are kept, others are allocated.

    :raises ApiError: 422, a requested value is invalid or not available; 500, no value is available.
    :raises StoreUnavailable: the allocation could not be made durable.
    """
    spec, before = service["spec"], old["spec"] if old is not None else None
    if before is None:
        normalize_new(spec)
    else:
        keep_allocated(spec, before)
    served = [f"IPv{version}" for version in reservation.ranges.networks]
    if causes := settle_families(spec, before, served):
        raise _invalid(service, causes)
    try:
        if before is None:
            await _allocate_new(spec, reservation)
        else:
            await _allocate_changed(spec, before, reservation)
    except _Unavailable as error:
        raise _invalid(service, [error.cause]) from error
    if before is not None:
        drop_unused(spec, before)


class _Unavailable(Exception):
    """A requested address or port is not available."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause.message)
        self.cause = cause


def _invalid(service: Object, causes: list[Cause]) -> ApiError:
    return invalid("", "Service", service["metadata"].get("name") or "", causes)


async def _allocate_new(spec: Object, reservation: ServiceReservation) -> None:
    await _take_addresses(spec, reservation)
    if needs_node_ports(spec):
        await _take_new_ports(spec, reservation)
    if needs_health_port(spec):
        await _take_health_port(spec, reservation)


async def _allocate_changed(spec: Object, before: Object, reservation: ServiceReservation) -> None:
    if not keeps_prefer_dual_stack(spec, before):
        if not needs_cluster_ip(before):
            await _take_addresses(spec, reservation)
        elif needs_cluster_ip(spec) and not is_headless(before):
            new, old = spec.get("ipFamilies") or (), before.get("ipFamilies") or ()
            if len(old) == 1 and len(new) == 2:
                await _take_addresses(spec, reservation, first=1)
    if needs_node_ports(spec):
        await _take_changed_ports(spec, {*node_ports(before)}, reservation)
    if needs_health_port(spec) and not needs_health_port(before):
        await _take_health_port(spec, reservation)


async def _take_addresses(spec: Object, reservation: ServiceReservation, first: int = 0) -> None:
    if not needs_cluster_ip(spec) or is_headless(spec):
        return
    addresses = list(spec.get("clusterIPs") or ())
    for index, name in enumerate(spec["ipFamilies"]):
        if index >= len(addresses):
            addresses.append("")
        if index < first:
            continue
        try:
            addresses[index] = await reservation.allocate_address(_VERSIONS[name], addresses[index])
        except AllocationError as error:
            raise _Unavailable(invalid_value("spec.clusterIPs", addresses, str(error))) from error
    spec["clusterIPs"], spec["clusterIP"] = addresses, addresses[0]


async def _take_new_ports(spec: Object, reservation: ServiceReservation) -> None:
    ports = spec.get("ports") or []
    requested: dict[int, int] = {}
    """Port → first requested node port; the protocols of a port share the node port."""
    for port in ports:
        if port.get("nodePort"):
            requested.setdefault(port.get("port") or 0, port["nodePort"])
    chosen: dict[int, int] = {}
    for index, port in _requested_first(ports, lambda port: (port.get("port") or 0) in requested):
        number, node_port = port.get("port") or 0, port.get("nodePort") or 0
        if not node_port and not allocates_node_ports(spec):
            continue
        if number not in chosen:
            port["nodePort"] = chosen[number] = await _take_port(reservation, requested.get(number, 0), index)
        elif not node_port:
            port["nodePort"] = chosen[number]
        elif node_port != chosen[number]:
            await _take_port(reservation, node_port, index)


async def _take_changed_ports(spec: Object, kept: set[int], reservation: ServiceReservation) -> None:
    taken: set[int] = set()
    used: set[tuple[str, int]] = set()
    for index, port in _requested_first(spec.get("ports") or [], lambda port: bool(port.get("nodePort"))):
        number = port.get("nodePort") or 0
        if not number and not allocates_node_ports(spec):
            continue
        if not number:
            number = port["nodePort"] = await _take_port(reservation, 0, index)
        elif number not in kept and number not in taken:
            await _take_port(reservation, number, index)
            taken.add(number)
        if (key := (port.get("protocol") or "", number)) in used:
            raise ApiError(500, "", f"duplicate nodePort: {{{key[0]} {key[1]}}}")
        used.add(key)


def _requested_first(ports: list[Object], is_requested: Callable[[Object], bool]) -> list[tuple[int, Object]]:
    """Return *ports* with their indexes, requests for certain numbers first, so that no other port gets these."""
    return sorted(enumerate(ports), key=lambda item: not is_requested(item[1]))


async def _take_port(reservation: ServiceReservation, requested: int, index: int) -> int:
    try:
        return await reservation.allocate_port(requested)
    except AllocationError as error:
        raise _Unavailable(invalid_value(f"spec.ports[{index}].nodePort", requested, str(error))) from error


async def _take_health_port(spec: Object, reservation: ServiceReservation) -> None:
    requested = spec.get("healthCheckNodePort") or 0
    try:
        spec["healthCheckNodePort"] = await reservation.allocate_port(requested)
    except AllocationError as error:
        raise internal(f"failed to allocate requested HealthCheck NodePort {requested}: {error}") from error
