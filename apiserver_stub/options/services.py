"""Command-line options for Service addresses and ports, and for the ``kubernetes`` Service."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Services"
Network = IPv4Network | IPv6Network
RECONCILERS = ("lease", "master-count", "none")
_MAX_HOST_BITS = 20
_MIN_ADDRESSES = 8
_USUAL = "10.0.0.0/24"
_BALANCERS = ("130.211.0.0/22", "35.191.0.0/16")


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class ServiceOptions:
    """Values of the command-line options for Service addresses and ports, and for the ``kubernetes`` Service."""

    service_cluster_ip_range: str = ""
    service_node_port_range: range = range(30000, 32768)
    platform_service_node_port: int = 0
    endpoint_reconciler_type: str = "lease"
    cloud_provider_cloudvendor_l7lb_src_cidrs: tuple[str, ...] = _BALANCERS
    cloudvendor_container_registry_config: Path | None = None

    @property
    def service_networks(self) -> tuple[Network, ...]:
        """Service CIDRs, the primary one first."""
        return tuple(ip_network(text, strict=False) for text in (self.service_cluster_ip_range or _USUAL).split(","))


def declare(group: Group) -> None:
    group.add(
        "service-cluster-ip-range",
        str,
        f"CIDR of Service cluster IPs, or one CIDR per IP family, comma separated. Default {_USUAL}.",
    )
    group.add(
        "service-node-port-range", _ports, "Node ports of Services: N1-N2, inclusive, or N1+SIZE. Default 30000-32767."
    )
    group.add(
        "platform-service-node-port",
        values.integer,
        "Node port of the kubernetes Service, which is then of type NodePort. Default 0: type ClusterIP.",
    )
    group.add(
        "endpoint-reconciler-type",
        str,
        "Endpoint reconciler of the kubernetes Service: lease (default), master-count (only this server) or none.",
    )
    group.add(
        "cloud-provider-cloudvendor-l7lb-src-cidrs",
        values.strings,
        "CIDRs for the firewall of a cloud; validated, but without effect.",
        action=Extend,
    )
    group.add(
        "cloudvendor-container-registry-config",
        Path,
        "Registry configuration of a cloud; must be readable, but has no effect.",
    )


def check(options: ServiceOptions) -> Iterator[str]:
    yield from _check_ranges(options)
    ports, port = options.service_node_port_range, options.platform_service_node_port
    if not 0 <= port <= 65535:
        yield (
            f"--platform-service-node-port {port} must be between 0 and 65535, inclusive. "
            "If 0, the service of this server will be of type ClusterIP"
        )
    elif port and port not in ports:
        yield f"service node port range {ports.start}-{ports.stop - 1} doesn't contain {port}"
    if options.endpoint_reconciler_type not in RECONCILERS:
        yield f"Reconciler not implemented: {options.endpoint_reconciler_type}"
    for text in options.cloud_provider_cloudvendor_l7lb_src_cidrs:
        try:
            ip_network(text, strict=False)
        except ValueError:
            yield f"--cloud-provider-cloudvendor-l7lb-src-cidrs: invalid CIDR address: {text}"
    config = options.cloudvendor_container_registry_config
    if config is not None:
        try:
            config.read_bytes()
        except OSError as error:
            yield f"--cloudvendor-container-registry-config: open {config}: {(error.strerror or '').lower()}"


def warnings(options: ServiceOptions) -> Iterator[str]:
    if options.cloud_provider_cloudvendor_l7lb_src_cidrs != _BALANCERS:
        yield "--cloud-provider-cloudvendor-l7lb-src-cidrs has no effect on this server: it configures no firewall"
    if options.cloudvendor_container_registry_config is not None:
        yield "--cloudvendor-container-registry-config has no effect on this server: it pulls no images"
    if options.endpoint_reconciler_type == "master-count":
        yield "--endpoint-reconciler-type=master-count is deprecated; several servers require lease"


def _check_ranges(options: ServiceOptions) -> Iterator[str]:
    texts = (options.service_cluster_ip_range or _USUAL).split(",")
    if len(texts) > 2:
        yield "--service-cluster-ip-range must not contain more than two entries"
        return
    networks: list[Network] = []
    for index, text in enumerate(texts):
        try:
            network = ip_network(text.strip(), strict=False)
        except ValueError:
            yield f"service-cluster-ip-range[{index}] is not a valid cidr"
            return
        networks.append(network)
        name = "service-cluster-ip-range" + "[1]" * index
        if network.max_prefixlen - network.prefixlen > _MAX_HOST_BITS:
            yield (
                f"specified --{name} is too large; for {network.max_prefixlen}-bit addresses, the mask must be >= "
                f"{network.max_prefixlen - _MAX_HOST_BITS}"
            )
        elif network.num_addresses < _MIN_ADDRESSES:
            which = "secondary" if index else "primary"
            yield (
                f"error determining service IP ranges for {which} service cidr: the service cluster IP range must be "
                f"at least {_MIN_ADDRESSES} IP addresses"
            )
    if len(networks) == 2 and networks[0].version == networks[1].version:
        yield "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family"


def _ports(text: str) -> range:
    first, mark, second = text.partition("-")
    if not mark:
        first, mark, second = text.partition("+")
    numbers = []
    for part in (first, second if mark else first):
        try:
            numbers.append(int(part.strip()))
        except ValueError:
            raise argparse.ArgumentTypeError(f'strconv.Atoi: parsing "{part}": invalid syntax') from None
    start = numbers[0]
    end = start + numbers[1] if mark == "+" else numbers[1]
    if end < start:
        raise argparse.ArgumentTypeError(f"end port cannot be less than start port: {text}")
    if not 1 <= start <= end <= 65535:
        raise argparse.ArgumentTypeError(f"the port range cannot be greater than 65535: {text}")
    return range(start, end + 1)
