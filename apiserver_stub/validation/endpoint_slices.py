"""Validation of endpoint slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_many,
)
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import family, parse_address, validate_remote_address
from apiserver_stub.validation.container_ports import PROTOCOLS
from nodeagent.base.names import label_problems, label_value_problems, qualified_name_problems, subdomain_problems

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20000, 8


def validate_slice(endpoint_slice: Object, rules: AddressRules = EARLY_RULES) -> list[Cause]:
    """Return the errors in an endpoint slice, metadata aside."""
    kind = endpoint_slice.get("addressType") or ""
    causes = []
    if kind not in _ADDRESS_TYPES:
        causes.append(not_supported("addressType", kind, _ADDRESS_TYPES) if kind else required("addressType"))
    endpoints, ports = endpoint_slice.get("endpoints") or [], endpoint_slice.get("ports") or []
    if len(endpoints) > _MOST_ENDPOINTS:
        causes.append(too_many("endpoints", len(endpoints), _MOST_ENDPOINTS))
    else:
        for index, endpoint in enumerate(endpoints):
            causes += _validate_endpoint(endpoint, f"endpoints[{index}]", kind, rules)
    if len(ports) > _MOST_PORTS:
        return [*causes, too_many("ports", len(ports), _MOST_PORTS)]
    return causes + list(_validate_ports(ports))


def validate_slice_update(endpoint_slice: Object, old: Object, rules: AddressRules = EARLY_RULES) -> list[Cause]:
    """Return the errors in a changed endpoint slice, metadata aside."""
    kind = endpoint_slice.get("addressType") or ""
    is_changed = kind != (old.get("addressType") or "")
    changes = [invalid_value("addressType", kind, "field is immutable")] if is_changed else []
    if rules.is_revised and endpoint_slice.get("endpoints") == old.get("endpoints"):
        endpoint_slice = {**endpoint_slice, "endpoints": []}  # Those that were valid before may stay.
    return validate_slice(endpoint_slice, rules) + changes


def slice_warnings(endpoint_slice: Object, rules: AddressRules) -> list[str]:
    """Return the warnings about addresses in an endpoint slice."""
    if not rules.is_revised or endpoint_slice.get("addressType") == "FQDN":
        return []
    return [
        warning
        for index, endpoint in enumerate(endpoint_slice.get("endpoints") or ())
        for number, address in enumerate(endpoint.get("addresses") or ())
        for warning in rules.warnings(f"endpoints[{index}].addresses[{number}]", address)
    ]


def _validate_endpoint(endpoint: Object, field: str, kind: str, rules: AddressRules) -> list[Cause]:
    addresses, path = endpoint.get("addresses") or [], f"{field}.addresses"
    causes = [] if addresses else [required(path, "must contain at least 1 address")]
    if len(addresses) > _MOST_ADDRESSES:
        causes.append(too_many(path, len(addresses), _MOST_ADDRESSES))
    for index, address in enumerate(addresses):
        causes += _validate_address(address, f"{path}[{index}]", kind, rules)
    if (node := endpoint.get("nodeName")) is not None:
        causes += invalid_each(f"{field}.nodeName", node, subdomain_problems(node))
    if (host := endpoint.get("hostname")) is not None:
        causes += invalid_each(f"{field}.hostname", host, label_problems(host))
    hints = endpoint.get("hints") or {}
    causes += _validate_hints(hints.get("forZones") or [], f"{field}.hints.forZones", label_value_problems)
    return causes + list(_validate_hints(hints.get("forNodes") or [], f"{field}.hints.forNodes", subdomain_problems))


def _validate_address(text: str, field: str, kind: str, rules: AddressRules) -> list[Cause]:
    if kind == "FQDN":
        return _validate_domain(text, field)
    if kind not in _ADDRESS_TYPES:
        return []
    address = parse_address(text)
    is_valid = address is not None and family(address) == kind
    if rules.is_revised:
        if causes := rules.validate_canonical(text, field) if kind == "IPv6" else rules.validate(text, field):
            return causes
        of_list = field.rpartition("[")[0]
        causes = [] if is_valid else [invalid_value(of_list, text, f"must be an {kind} address")]
        return causes + validate_remote_address(text, field)
    rule = f"must be a valid {kind} address"
    causes = rules.validate(text, field) if is_valid else [invalid_value(field, text, rule)]
    return causes + validate_remote_address(text, field)


def _validate_domain(text: str, field: str) -> list[Cause]:
    if not text:
        return [required(field)]
    name = text.removesuffix(".")
    if problems := subdomain_problems(name):
        return [invalid_value(field, name, ",".join(problems))]
    labels = name.split(".")
    if len(labels) < 2:
        return [invalid_value(field, name, "should be a domain with at least two segments separated by dots")]
    for label in labels:
        if problems := label_problems(label):
            return [invalid_value(field, label, ",".join(problems))]
    return []


def _validate_hints(hints: Sequence[Object], field: str, problems: Callable[[str], list[str]]) -> Iterator[Cause]:
    if len(hints) > _MOST_HINTS:
        yield too_many(field, len(hints), _MOST_HINTS)
        return
    seen: set[str] = set()
    for index, hint in enumerate(hints):
        path, name = f"{field}[{index}].name", hint.get("name") or ""
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)
        yield from invalid_each(path, name, problems(name))


def _validate_ports(ports: Sequence[Object]) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        field, name = f"ports[{index}]", port.get("name") or ""
        if name:
            yield from invalid_each(f"{field}.name", name, label_problems(name))
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
        protocol = port.get("protocol")
        if protocol not in PROTOCOLS:
            at = f"{field}.protocol"
            yield required(at) if protocol is None else not_supported(at, protocol, PROTOCOLS)
        if (application := port.get("appProtocol")) is not None:
            yield from invalid_each(f"{field}.appProtocol", application, qualified_name_problems(application))
