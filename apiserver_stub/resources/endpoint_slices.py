"""Endpoint slices: which addresses are behind a service, for those who forward packets."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Column, Resource, Strategy
from apiserver_stub.status import Cause, duplicate, invalid_value, not_supported, required
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import label_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

GROUP = identity.current().group("discovery")
STORAGE = f"{GROUP}/endpointslices"
_FAMILIES = {"IPv4": 4, "IPv6": 6}
_ADDRESS_TYPES = ("FQDN", *_FAMILIES)
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS = 1000, 100, 20000
_SHOWN = 3


class EndpointSliceStrategy(Strategy):
    """Addresses are of one type, which stays; ports without a protocol are of TCP."""

    counted = ("endpoints", "ports")

    def default(self, new: Object) -> None:
        new["endpoints"] = new.get("endpoints") or []
        new["ports"] = new.get("ports") or []
        for port in new["ports"]:
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        for endpoint in new["endpoints"]:
            endpoint.pop("deprecatedTopology", None)  # only versions that are no longer served could write it
            endpoint.setdefault("conditions", {})

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        """All of it is for its writer."""

    def validate(self, new: Object) -> list[Cause]:
        kind = new.get("addressType") or ""
        causes = [] if kind else [required("addressType")]
        if kind and kind not in _ADDRESS_TYPES:
            causes.append(not_supported("addressType", kind, _ADDRESS_TYPES))
        for member, most in (("endpoints", _MOST_ENDPOINTS), ("ports", _MOST_PORTS)):
            if len(new[member]) > most:
                return [*causes, _too_many(member, len(new[member]), most)]
        for index, endpoint in enumerate(new["endpoints"]):
            causes += _endpoint_causes(f"endpoints[{index}]", endpoint, kind)
        return causes + list(_port_causes(new["ports"]))

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = self.validate(new)
        if new.get("addressType") != old.get("addressType"):
            causes.append(invalid_value("addressType", new.get("addressType") or "", "field is immutable"))
        return causes


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            GROUP,
            "v1",
            "EndpointSlice",
            "endpointslices",
            hashed_version="v1beta1",
            metadata_rules=MetadataRules(changes=0),
            strategy=EndpointSliceStrategy(),
            columns=(
                NAME,
                at("AddressType", "addressType", default=""),
                Column("Ports", _ports),
                Column("Endpoints", _endpoints),
                AGE,
            ),
        )
    ]


def _endpoint_causes(field: str, endpoint: Object, kind: str) -> list[Cause]:
    addresses = endpoint.get("addresses") or []
    causes = [] if addresses else [required(f"{field}.addresses", "must contain at least 1 address")]
    if len(addresses) > _MOST_ADDRESSES:
        causes.append(_too_many(f"{field}.addresses", len(addresses), _MOST_ADDRESSES))
    if kind in _FAMILIES:
        for index, address in enumerate(addresses):
            if problem := _address_problem(address, kind):
                causes.append(invalid_value(f"{field}.addresses[{index}]", address, problem))
    if (hostname := endpoint.get("hostname")) is not None:
        causes += [invalid_value(f"{field}.hostname", hostname, problem) for problem in label_problems(hostname)]
    return causes


def _address_problem(text: str, kind: str) -> str:
    """Return why an endpoint cannot be found at *text*, empty when it can."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if address is None or address.version != _FAMILIES[kind]:
        return f"must be a valid {kind} address"
    if address.is_unspecified:
        return f"may not be unspecified ({text})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    return ""


def _port_causes(ports: Sequence[Object]) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"ports[{index}]", port["name"]
        if name:
            yield from (invalid_value(f"{field}.name", name, problem) for problem in label_problems(name))
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        if port["protocol"] not in _PROTOCOLS:
            yield not_supported(f"{field}.protocol", port["protocol"], _PROTOCOLS)


def _too_many(field: str, count: int, most: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {most} items", field)


def _ports(obj: Object) -> str:
    ports = obj.get("ports") or ()
    return _first([str(port["port"]) if port.get("port") is not None else port.get("name") or "*" for port in ports])


def _endpoints(obj: Object) -> str:
    return _first([address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()])


def _first(words: Sequence[str]) -> str:
    more = f" + {len(words) - _SHOWN} more..." if len(words) > _SHOWN else ""
    return ",".join(words[:_SHOWN]) + more or "<unset>"
