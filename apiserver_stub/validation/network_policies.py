"""Validation of NetworkPolicies."""

from __future__ import annotations

from collections.abc import Collection

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import parse_cidr
from apiserver_stub.validation.container_ports import validate_port_number
from apiserver_stub.validation.labels import validate_selector
from nodeagent.base.names import port_name_problems

_PROTOCOLS, _TYPES = ("TCP", "UDP", "SCTP"), ("Ingress", "Egress")


def validate_network_policy(
    policy: Object, rules: AddressRules = EARLY_RULES, *, any_values: bool = False, stored: Collection[str] = ()
) -> list[Cause]:
    """Return the errors in the specification of a NetworkPolicy.

    :param any_values: do not validate the values of selectors.
    :param stored: CIDR blocks of the stored policy, which are accepted in any notation from 1.33 on.
    """
    spec = policy.get("spec") or {}
    causes = validate_selector(spec.get("podSelector"), "spec.podSelector", any_values=any_values)
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            field = f"spec.{direction}[{index}]"
            for number, port in enumerate(rule.get("ports") or ()):
                causes += _validate_port(port, f"{field}.ports[{number}]")
            for number, peer in enumerate(rule.get(peers) or ()):
                path = f"{field}.{peers}[{number}]"
                causes += _validate_peer(peer, path, rules, stored, any_values=any_values)
    types = spec.get("policyTypes") or []
    if len(types) > len(_TYPES):
        return [*causes, invalid_value("spec.policyTypes", types, "may not specify more than two policyTypes")]
    return causes + [
        not_supported(f"spec.policyTypes[{index}]", kind, _TYPES)
        for index, kind in enumerate(types)
        if kind not in _TYPES
    ]


def blocks_of(policy: Object) -> set[str]:
    """Return the CIDR blocks in a policy."""
    spec, found = policy.get("spec") or {}, set()
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for rule in spec.get(direction) or ():
            for peer in rule.get(peers) or ():
                block = peer.get("ipBlock") or {}
                found |= {block.get("cidr") or "", *(block.get("except") or ())}
    return found


def has_invalid_selector(policy: Object) -> bool:
    """Return whether the selector of a stored policy is invalid; values are then not validated again."""
    return bool(validate_selector((policy.get("spec") or {}).get("podSelector"), ""))


def _validate_port(port: Object, field: str) -> list[Cause]:
    causes = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        causes.append(not_supported(f"{field}.protocol", protocol, _PROTOCOLS))
    path = f"{field}.endPort"
    if number is None:
        if end is not None:
            causes.append(invalid_value(path, end, "may not be specified when `port` is not specified"))
    elif isinstance(number, str):
        if end is not None:
            causes.append(invalid_value(path, end, "may not be specified when `port` is non-numeric"))
        causes += invalid_each(f"{field}.port", number, port_name_problems(number))
    else:
        causes += validate_port_number(number, f"{field}.port")
        if end is not None:
            if end < number:
                causes.append(invalid_value(path, number, "must be greater than or equal to `port`"))
            causes += validate_port_number(end, path)
    return causes


def _validate_peer(
    peer: Object, field: str, rules: AddressRules, stored: Collection[str], *, any_values: bool
) -> list[Cause]:
    causes: list[Cause] = []
    for name in ("podSelector", "namespaceSelector"):
        causes += validate_selector(peer.get(name), f"{field}.{name}", any_values=any_values)
    block = peer.get("ipBlock")
    if block is not None:
        causes += _validate_block(block, f"{field}.ipBlock", rules, stored)
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        causes.append(required(field, "must specify a peer"))
    elif len(given) > 1 and block is not None:
        causes.append(forbidden_value(field, "may not specify both ipBlock and another peer"))
    return causes


def _validate_block(block: Object, field: str, rules: AddressRules, stored: Collection[str]) -> list[Cause]:
    text = block.get("cidr") or ""
    if not text:
        return [required(f"{field}.cidr")]
    network = parse_cidr(text)
    if network is None and not rules.is_revised:
        return [invalid_value(f"{field}.cidr", text, "not a valid CIDR")]
    causes = rules.validate_block(text, f"{field}.cidr", stored) if rules.is_revised else []
    if network is None:
        return causes
    for index, excluded in enumerate(block.get("except") or ()):
        path, part = f"{field}.except[{index}]", parse_cidr(excluded)
        if part is None and not rules.is_revised:
            return [*causes, invalid_value(path, excluded, "not a valid CIDR")]
        causes += rules.validate_block(excluded, path, stored) if rules.is_revised else []
        if part is None:
            continue
        inside = part.version == network.version and part.network_address in network
        if not inside or network.prefixlen >= part.prefixlen:
            causes.append(invalid_value(path, excluded, "must be a strict subset of `cidr`"))
    return causes
