"""Tests for the validation of endpoint slices."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.address_rules import AddressRules
from apiserver_stub.validation.endpoint_slices import validate_slice, validate_slice_update
from nodeagent.base.release import Release

_PORT = {"name": "", "protocol": "TCP"}


def _slice(kind: str = "IPv4", *addresses: str, ports: Any = (), **endpoint: Any) -> dict[str, Any]:
    return {"addressType": kind, "endpoints": [{"addresses": [*addresses], **endpoint}], "ports": [*ports]}


def _texts(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


_ADDRESS = "endpoints[0].addresses[0]"


@pytest.mark.parametrize(
    ("endpoint_slice", "expected"),
    [
        (_slice("IPv4", "10.0.0.1"), []),
        (_slice("IPv6", "fd00::1"), []),
        (_slice("FQDN", "db.example.com."), []),
        (_slice("FQDN", "db.example"), []),
        (_slice("IPv4", *["10.0.0.1"] * 100), []),
        (_slice("IPv4", "10.0.0.1", hints={"forZones": [{"name": f"z{number}"} for number in range(8)]}), []),
        ({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}] * 1000}, []),
        (_slice("", "10.0.0.1"), ["Required addressType"]),
        (_slice("ipv4", "10.0.0.1"), ["NotSupported addressType"]),
        (_slice("IPv4"), ["Required endpoints[0].addresses"]),
        (_slice("IPv4", *["10.0.0.1"] * 101), ["TooMany endpoints[0].addresses"]),
        (_slice("IPv4", "fd00::1"), [f"Invalid {_ADDRESS}"]),
        (_slice("IPv4", "x"), [f"Invalid {_ADDRESS}"] * 2),
        (_slice("IPv4", "127.0.0.1"), [f"Invalid {_ADDRESS}"]),
        (_slice("FQDN", ""), [f"Required {_ADDRESS}"]),
        (_slice("FQDN", "db"), [f"Invalid {_ADDRESS}"]),
        (_slice("FQDN", "A.b"), [f"Invalid {_ADDRESS}"]),
        (_slice("FQDN", f"{'a' * 64}.b"), [f"Invalid {_ADDRESS}"]),
        (_slice("IPv4", "10.0.0.1", nodeName="A"), ["Invalid endpoints[0].nodeName"]),
        (_slice("IPv4", "10.0.0.1", hostname="a.b"), ["Invalid endpoints[0].hostname"]),
        (
            _slice("IPv4", "10.0.0.1", hints={"forZones": [{"name": "a"}, {"name": "a"}, {"name": "b c"}]}),
            ["Duplicate endpoints[0].hints.forZones[1].name", "Invalid endpoints[0].hints.forZones[2].name"],
        ),
        (_slice("IPv4", "10.0.0.1", hints={"forZones": [{}] * 9}), ["TooMany endpoints[0].hints.forZones"]),
        (_slice("IPv4", "10.0.0.1", ports=[_PORT, _PORT]), ["Duplicate ports[1].name"]),
        (_slice("IPv4", "10.0.0.1", ports=[_PORT | {"name": "A"}]), ["Invalid ports[0].name"]),
        (_slice("IPv4", "10.0.0.1", ports=[_PORT | {"protocol": ""}]), ["NotSupported ports[0].protocol"]),
        (_slice("IPv4", "10.0.0.1", ports=[_PORT | {"appProtocol": "a b"}]), ["Invalid ports[0].appProtocol"]),
        ({"addressType": "IPv4", "endpoints": [{}] * 1001}, ["TooMany endpoints"]),
        ({"addressType": "IPv4", "ports": [{}] * 20001}, ["TooMany ports"]),
    ],
)
def test_errors_of_endpoint_slice_are_reported(endpoint_slice: dict[str, Any], expected: list[str]) -> None:
    assert _texts(validate_slice(endpoint_slice)) == expected


def test_address_type_does_not_change() -> None:
    causes = validate_slice_update(_slice("IPv6", "fd00::1"), _slice("IPv4", "10.0.0.1"))

    assert _texts(causes) == ["Invalid addressType"]


def test_addresses_of_the_other_family_are_reported_at_the_list_since_1_33() -> None:
    rules = AddressRules(Release(1, 36), is_strict=True)
    old = {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"]}]}
    new = {**old, "addressType": "IPv4"}

    assert [cause.field for cause in validate_slice(new, rules)] == ["endpoints[0].addresses"]
    assert [cause.field for cause in validate_slice_update(new, old, rules)] == ["addressType"]
