"""Validation of the subsets of endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, required
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import validate_remote_address
from apiserver_stub.validation.container_ports import validate_port_number, validate_protocol
from nodeagent.base.names import label_problems, qualified_name_problems, subdomain_problems


def validate_subsets(subsets: Sequence[Object], rules: AddressRules = EARLY_RULES) -> list[Cause]:
    """Return the errors in the subsets of endpoints."""
    causes: list[Cause] = []
    for index, subset in enumerate(subsets):
        field = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            causes.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
        for name in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(name) or ()):
                causes += _validate_address(address, f"{field}.{name}[{number}]", rules)
        ports = subset.get("ports") or []
        for number, port in enumerate(ports):
            causes += _validate_port(port, f"{field}.ports[{number}]", is_named=len(ports) > 1)
    return causes


def subset_warnings(subsets: Sequence[Object], rules: AddressRules) -> list[str]:
    """Return the warnings about addresses in the subsets of endpoints."""
    if not rules.is_revised:
        return []
    return [
        warning
        for index, subset in enumerate(subsets)
        for name in ("addresses", "notReadyAddresses")
        for number, address in enumerate(subset.get(name) or ())
        for warning in rules.warnings(f"subsets[{index}].{name}[{number}].ip", address.get("ip") or "")
    ]


def _validate_address(address: Object, field: str, rules: AddressRules) -> list[Cause]:
    text = address.get("ip") or ""
    causes = rules.validate(text, f"{field}.ip")
    if host := address.get("hostname"):
        causes += invalid_each(f"{field}.hostname", host, label_problems(host))
    if (node := address.get("nodeName")) is not None:
        causes += invalid_each(f"{field}.nodeName", node, subdomain_problems(node))
    return causes + validate_remote_address(text, f"{field}.ip")


def _validate_port(port: Object, field: str, *, is_named: bool) -> list[Cause]:
    causes: list[Cause] = []
    if name := port.get("name"):
        causes += invalid_each(f"{field}.name", name, label_problems(name))
    elif is_named:
        causes.append(required(f"{field}.name"))
    causes += validate_port_number(port.get("port") or 0, f"{field}.port")
    causes += validate_protocol(port.get("protocol") or "", f"{field}.protocol")
    if (protocol := port.get("appProtocol")) is not None:
        causes += invalid_each(f"{field}.appProtocol", protocol, qualified_name_problems(protocol))
    return causes
