"""Names and contents of the objects that record cluster IPs: ServiceCIDRs and IPAddresses. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.kinds.service_cidrs import stored_version, versions_of
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.storage import Record
    from nodeagent.base.identity import Identity
    from nodeagent.base.release import Release

DEFAULT = "kubernetes"
"""Name of the ServiceCIDR with the ranges in ``--service-cluster-ip-range``."""
READY = "Ready"

Network = IPv4Network | IPv6Network


class AddressObjects(Struct, frozen=True):
    """ServiceCIDRs and IPAddresses of a release."""

    group: str
    version: str
    """Version in which they are served; the latest one."""
    stored: str
    """Version in which they are stored."""
    family_label: str
    manager_label: str
    manager: str
    """Value of the label of addresses that the API server allocates."""

    @classmethod
    def of(cls, identity: Identity, release: Release) -> AddressObjects:
        return cls(
            identity.group("networking"),
            versions_of(release)[0],
            stored_version(release),
            identity.label("ip-family", "ipaddress"),
            identity.label("managed-by", "ipaddress"),
            identity.group("ipallocator"),
        )

    @property
    def addresses(self) -> str:
        """Collection of the IPAddresses; the keys are the addresses in canonical form."""
        return f"{self.group}/ipaddresses"

    @property
    def ranges(self) -> str:
        """Collection of the ServiceCIDRs."""
        return f"{self.group}/servicecidrs"

    def address(self, name: str, namespace: str, service: str) -> Object:
        """Return the IPAddress *name* of a service."""
        return {
            "kind": "IPAddress",
            "apiVersion": f"{self.group}/{self.stored}",
            "metadata": {
                "name": name,
                "uid": objects.new_uid(),
                "creationTimestamp": objects.now(),
                "labels": self._labels(name),
            },
            "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": service}},
        }

    def default_range(self, networks: Iterable[Network]) -> Object:
        """Return the ServiceCIDR with the *networks* of the command line."""
        return {
            "kind": "ServiceCIDR",
            "apiVersion": f"{self.group}/{self.stored}",
            "metadata": {"name": DEFAULT},
            "spec": {"cidrs": [str(network) for network in networks]},
            "status": {},
        }

    def is_managed(self, address: Object) -> bool:
        """Return whether the API server allocated *address*, an IPAddress."""
        return (address["metadata"].get("labels") or {}).get(self.manager_label) == self.manager

    def is_labeled(self, address: Object) -> bool:
        """Return whether *address*, an IPAddress, has the labels of the API server."""
        found = address["metadata"].get("labels") or {}
        return all(found.get(key) == value for key, value in self._labels(address["metadata"]["name"]).items())

    def _labels(self, name: str) -> dict[str, str]:
        return {self.family_label: f"IPv{ip_address(name).version}", self.manager_label: self.manager}


def networks_of(service_cidr: Object) -> list[Network]:
    """Return the networks of a ServiceCIDR."""
    return [ip_network(text) for text in dig(service_cidr, ("spec", "cidrs")) or ()]


def usable(network: Network) -> range:
    """Return the addresses of *network* that can be allocated, as numbers."""
    first, last = int(network.network_address) + 1, int(network.broadcast_address)
    return range(first, last if network.version == 4 else last + 1)


def is_ready(service_cidr: Object) -> bool:
    """Return whether addresses are allocated from a ServiceCIDR; it is ready until a condition states otherwise."""
    if "deletionTimestamp" in service_cidr["metadata"]:
        return False
    conditions = dig(service_cidr, ("status", "conditions")) or ()
    return all(item.get("status") == "True" for item in conditions if item.get("type") == READY)


def read_all(records: Iterable[Record]) -> Iterator[Object]:
    """Yield the objects of *records*."""
    return (objects.decode(record.data) for record in records)
