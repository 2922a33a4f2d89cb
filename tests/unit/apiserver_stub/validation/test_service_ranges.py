"""Tests for the validation of IPAddresses and ServiceCIDRs."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.service_ranges import (
    address_name_problems,
    validate_ip_address,
    validate_ip_address_update,
    validate_service_cidr,
    validate_service_cidr_update,
)
from nodeagent.base.release import OLDEST, Release

LATEST = Release(1, 36)


def cidr(*blocks: str) -> Any:
    return {"spec": {"cidrs": list(blocks)}}


@pytest.mark.parametrize(
    ("name", "release", "problem"),
    [
        ("10.0.0.1", OLDEST, ""),
        ("fd00::1", OLDEST, ""),
        ("FD00::1", OLDEST, "must be a canonical format IP address"),
        ("web", OLDEST, 'ParseAddr("web"): unable to parse IP'),
        ("10.0.0", OLDEST, 'ParseAddr("10.0.0"): IPv4 address too short'),
        ("10.0.0.256", OLDEST, 'ParseAddr("10.0.0.256"): IPv4 field has value >255'),
        ("10.0.0.01", OLDEST, 'ParseAddr("10.0.0.01"): IPv4 field has octet with leading zero'),
        ("10.0.0.1", LATEST, ""),
        ("web", LATEST, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        ("10.0.0.01", LATEST, "must not have leading 0s"),
        ("::ffff:1.2.3.4", LATEST, "must not be an IPv4-mapped IPv6 address"),
        ("FD00::1", LATEST, 'must be in canonical form ("fd00::1")'),
    ],
)
def test_name_is_an_address_in_canonical_form(name: str, release: Release, problem: str) -> None:
    assert address_name_problems(name, release) == ([problem] if problem else [])


@pytest.mark.parametrize(
    ("reference", "fields"),
    [
        (None, ["spec.parentRef"]),
        ({}, ["spec.parentRef.resource", "spec.parentRef.name"]),
        ({"resource": "services", "name": "a", "namespace": "b/c"}, ["spec.parentRef.namespace"]),
        ({"resource": "services", "name": "a", "group": "A"}, ["spec.parentRef.group"]),
        ({"resource": "services", "name": "a"}, []),
    ],
)
def test_parent_is_a_complete_reference(reference: Any, fields: list[str]) -> None:
    spec = {"parentRef": reference} if reference is not None else {}
    assert [cause.field for cause in validate_ip_address({"spec": spec})] == fields


def test_parent_is_immutable() -> None:
    old, new = ({"spec": {"parentRef": {"resource": "services", "name": name}}} for name in "ab")

    assert [cause.field for cause in validate_ip_address_update(new, old)] == ["spec.parentRef"]
    assert validate_ip_address_update(old, old) == []


@pytest.mark.parametrize(
    ("blocks", "release", "messages"),
    [
        ((), OLDEST, ["Required value: at least one CIDR required"]),
        (("10.0.0.0/24", "fd00::/64"), OLDEST, []),
        (("10.0.0.0/24", "fd00::/64"), LATEST, []),
        (("10.0.0.1/24",), OLDEST, ["wrong CIDR format, IP doesn't match network IP address"]),
        (("10.0.0.1/24",), LATEST, ["must not have bits set beyond the prefix length"]),
        (("FD00::/64",), OLDEST, ["CIDR not in RFC 5952 canonical format"]),
        (("FD00::/64",), LATEST, ['must be in canonical form ("fd00::/64")']),
        (("10.0.0.0",), OLDEST, ["netip.ParsePrefix(\"10.0.0.0\"): no '/'"]),
        (("fe80::%eth0/64",), OLDEST, ["IPv6 zones cannot be present in a prefix"]),
        (("fe80::1%eth0/x",), OLDEST, ["IPv6 zones cannot be present in a prefix"]),
        (("fe80::%eth0/64",), LATEST, ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        (("10.0.0.0/01",), OLDEST, ['bad bits after slash: "01"']),
        (("10.0.0.0/",), OLDEST, ['bad bits after slash: ""']),
        ((f"10.0.0.0/{(1 << 63) - 1}",), OLDEST, ["prefix length out of range"]),
        ((f"10.0.0.0/{1 << 63}",), OLDEST, [f'bad bits after slash: "{1 << 63}"']),
        (("fd00::/129",), OLDEST, ["prefix length out of range"]),
        (("10.0.0.0/33",), OLDEST, ['netip.ParsePrefix("10.0.0.0/33"): prefix length out of range']),
        (("10.0.0.0/33",), LATEST, ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        (("10.0.0.0/24", "10.1.0.0/24"), OLDEST, ["may specify no more than one IP for each IP family"]),
        (("10.0.0.0/24", "10.1.0.0/24"), LATEST, ["may specify no more than one IP for each IP family"]),
        (("10.0.0.0/24", "fd00::/64", "fd01::/64"), LATEST, ["may only hold up to 2 values"]),
    ],
)
def test_blocks_are_canonical_and_of_different_families(
    blocks: tuple[str, ...], release: Release, messages: list[str]
) -> None:
    found = [cause.message for cause in validate_service_cidr(cidr(*blocks), release)]

    assert len(found) == len(messages)
    assert all(part in message for part, message in zip(messages, found, strict=True))


@pytest.mark.parametrize(
    ("old", "new", "release", "fields"),
    [
        (("10.0.0.0/24",), ("10.1.0.0/24",), OLDEST, ["spec.cidrs"]),
        (("10.0.0.0/24",), ("10.0.0.0/24", "fd00::/64"), OLDEST, ["spec.cidrs"]),
        (("10.0.0.0/24",), ("10.1.0.0/24",), LATEST, ["spec.cidrs[0]"]),
        (("10.0.0.0/24",), ("10.0.0.0/24", "fd00::/64"), LATEST, []),
        (("10.0.0.0/24",), ("10.0.0.0/24", "10.1.0.0/24"), LATEST, ["spec.cidrs"]),
        (("10.0.0.0/24", "fd00::/64"), ("10.0.0.0/24",), LATEST, ["spec.cidrs"]),
    ],
)
def test_blocks_are_immutable_except_for_a_second_family(
    old: tuple[str, ...], new: tuple[str, ...], release: Release, fields: list[str]
) -> None:
    assert [cause.field for cause in validate_service_cidr_update(cidr(*new), cidr(*old), release)] == fields
