"""Validation of IPAddresses and ServiceCIDRs. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address, ip_interface

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value, quote, required
from apiserver_stub.validation.address_rules import AddressRules
from apiserver_stub.validation.addresses import ADDRESS_RULE, family, parse_address, parse_cidr, validate_legacy_address
from apiserver_stub.validation.names import path_problems
from nodeagent.base.gointeger import IntegerError, parse_int64
from nodeagent.base.names import subdomain_problems
from nodeagent.base.release import OLDEST, Release

_REVISED = Release(1, 33)
"""First release with the rules for all new fields that contain addresses, and with changes to dual-stack."""
_IMMUTABLE = "field is immutable"
_CIDRS = "spec.cidrs"
_ONE_PER_FAMILY = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


def address_name_problems(name: str, release: Release = OLDEST) -> list[str]:
    """Return the reasons why *name* is not the canonical notation of an IP address."""
    if release >= _REVISED:
        if causes := validate_legacy_address(name, "", is_strict=True, rule=ADDRESS_RULE):
            return [cause.message.partition(": ")[2].partition(": ")[2] for cause in causes]
        address = parse_address(name)
        return [] if str(address) == name else [f'must be in canonical form ("{address}")']
    try:
        parsed = ip_address(name)
    except ValueError:
        return [f"ParseAddr({quote(name)}): {_parse_error(name)}"]
    return [] if _canonical(parsed) == name else ["must be a canonical format IP address"]


def validate_ip_address(new: Object) -> list[Cause]:
    """Return the errors in an IPAddress."""
    field, reference = "spec.parentRef", dig(new, ("spec", "parentRef"))
    if reference is None:
        return [required(field)]
    causes = []
    if group := reference.get("group"):
        causes += invalid_each(f"{field}.group", group, subdomain_problems(group))
    for name in ("resource", "name", "namespace"):
        if value := reference.get(name):
            causes += invalid_each(f"{field}.{name}", value, path_problems(value))
        elif name != "namespace":
            causes.append(required(f"{field}.{name}"))
    return causes


def validate_ip_address_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the change of an IPAddress."""
    causes, reference = validate_ip_address(new), dig(new, ("spec", "parentRef"))
    if reference != dig(old, ("spec", "parentRef")):
        causes.append(invalid_value("spec.parentRef", reference, _IMMUTABLE))
    return causes


def validate_service_cidr(new: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in a ServiceCIDR."""
    spec = new.get("spec") or {}
    blocks = spec.get("cidrs") or []
    if not blocks:
        return [required(_CIDRS, "at least one CIDR required")]
    if len(blocks) > 2:
        return [invalid_value(_CIDRS, _shown(blocks), "may only hold up to 2 values")]
    if release < _REVISED:
        if len(blocks) == 2 and not _is_dual(blocks):
            return [invalid_value(_CIDRS, _shown(blocks), _ONE_PER_FAMILY)]
        return [cause for index, block in enumerate(blocks) for cause in _early_errors(block, f"{_CIDRS}[{index}]")]
    causes = [cause for index, block in enumerate(blocks) for cause in _errors(block, f"{_CIDRS}[{index}]", release)]
    families = [family(network) for block in blocks if (network := parse_cidr(block)) is not None]
    if len(families) == 2 and families[0] == families[1]:
        causes.append(invalid_value(_CIDRS, blocks, _ONE_PER_FAMILY))
    return causes


def validate_service_cidr_update(new: Object, old: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the change of a ServiceCIDR: from 1.33 on, a second IP family can be added."""
    blocks, before = dig(new, ("spec", "cidrs")) or [], dig(old, ("spec", "cidrs")) or []
    if release < _REVISED:
        causes = validate_service_cidr(new, release)
        return causes if blocks == before else [*causes, invalid_value(_CIDRS, blocks, _IMMUTABLE)]
    changed = [
        invalid_value(f"{_CIDRS}[{index}]", block, _IMMUTABLE)
        for index, (block, other) in enumerate(zip(blocks, before, strict=False))
        if block != other
    ]
    if len(blocks) == len(before):
        return changed
    if (len(before), len(blocks)) == (1, 2):
        return changed + validate_service_cidr(new, release)
    return [invalid_value(_CIDRS, blocks, _IMMUTABLE)]


def _errors(block: str, field: str, release: Release) -> Iterator[Cause]:
    if causes := AddressRules(release, is_strict=True).validate_block(block, field):
        yield from causes
    elif (network := parse_cidr(block)) is not None and str(network) != block:
        yield invalid_value(field, block, f'must be in canonical form ("{network}")')


def _early_errors(block: str, field: str) -> Iterator[Cause]:
    host, slash, length = block.rpartition("/")
    is_plain = slash and "%" not in host and length.isascii() and length.isdigit()
    try:
        interface = ip_interface(block) if is_plain else None
    except ValueError:
        interface = None
    if interface is None or (len(length) > 1 and length.startswith("0")):
        yield invalid_value(field, block, f"netip.ParsePrefix({quote(block)}): {_prefix_error(host, length, slash)}")
        return
    if interface.ip != interface.network.network_address:
        yield invalid_value(field, block, "wrong CIDR format, IP doesn't match network IP address")
    if f"{_canonical(interface.ip)}/{interface.network.prefixlen}" != block:
        yield invalid_value(field, block, "CIDR not in RFC 5952 canonical format")


def _is_dual(blocks: list[str]) -> bool:
    networks = [parse_cidr(block) for block in blocks]
    return None not in networks and len({family(network) for network in networks if network is not None}) == 2


def _shown(blocks: list[str]) -> Object:
    """Return the spec as kube-apiserver shows it."""
    return {"CIDRs": blocks}


def _canonical(address: object) -> str:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)


def _prefix_error(host: str, length: str, slash: str) -> str:
    if not slash:
        return "no '/'"
    try:
        address = ip_address(host)
    except ValueError:
        return f"ParseAddr({quote(host)}): {_parse_error(host)}"
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return "IPv6 zones cannot be present in a prefix"
    problem = f"bad bits after slash: {quote(length)}"
    if not (length.isascii() and length.isdigit()) or (len(length) > 1 and length.startswith("0")):
        return problem
    try:
        parse_int64(length)
    except IntegerError:
        return problem
    return "prefix length out of range"


def _parse_error(text: str) -> str:
    """Return the reason why *text* is not an IP address, as Go's net/netip states it."""
    first = next((character for character in text if character in ".:%"), "")
    if first == "":
        return "unable to parse IP"
    if first == "%":
        return "missing IPv6 address"
    return _parse_v4_error(text) if first == "." else f"unexpected character (at {quote(text)})"


def _parse_v4_error(text: str) -> str:
    value = fields = digits = 0
    for index, character in enumerate(text):
        if character.isascii() and character.isdigit():
            if digits == 1 and value == 0:
                return "IPv4 field has octet with leading zero"
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                return "IPv4 field has value >255"
        elif character == ".":
            if index in (0, len(text) - 1) or text[index - 1] == ".":
                return f"IPv4 field must have at least one digit (at {quote(text[index:])})"
            if fields == 3:
                return "IPv4 address too long"
            fields, value, digits = fields + 1, 0, 0
        else:
            return f"unexpected character (at {quote(text[index:])})"
    return "IPv4 address too short"
