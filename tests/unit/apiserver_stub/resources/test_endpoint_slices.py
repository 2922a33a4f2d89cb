"""An endpoint slice holds addresses of one type that can be reached, and ports that can be told apart."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.options import Options
from apiserver_stub.resources.endpoint_slices import EndpointSliceStrategy, resources


def piece(addresses: Any = ("10.1.0.1",), ports: Any = ({"port": 80},), kind: str = "IPv4") -> dict[str, Any]:
    endpoints = [{"addresses": list(addresses)}]
    made = {"metadata": {"name": "s"}, "addressType": kind, "endpoints": endpoints, "ports": [*map(dict, ports)]}
    EndpointSliceStrategy().default(made)
    return made


def fields(made: dict[str, Any]) -> list[str]:
    return [cause.field for cause in EndpointSliceStrategy().validate(made)]


def test_ports_have_a_name_and_a_protocol() -> None:
    made = piece()
    assert made["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]
    assert fields(made) == []


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (piece(kind=""), "addressType"),
        (piece(kind="Other"), "addressType"),
        (piece(()), "endpoints[0].addresses"),
        (piece(["10.1.0.1"] * 101), "endpoints[0].addresses"),
        (piece(["fd00::1"]), "endpoints[0].addresses[0]"),
        (piece(["web"]), "endpoints[0].addresses[0]"),
        (piece(["127.0.0.1"]), "endpoints[0].addresses[0]"),
        (piece(["169.254.0.1"]), "endpoints[0].addresses[0]"),
        (piece(["0.0.0.0"]), "endpoints[0].addresses[0]"),
        (piece(ports=[{"port": 1}, {"port": 2}]), "ports[1].name"),
        (piece(ports=[{"name": "A"}]), "ports[0].name"),
        (piece(ports=[{"protocol": "X"}]), "ports[0].protocol"),
    ],
)
def test_what_cannot_be_forwarded_to_is_refused(made: dict[str, Any], field: str) -> None:
    assert fields(made) == [field]


def test_names_are_addresses_too_and_the_type_stays() -> None:
    assert fields(piece(["web.example.com"], kind="FQDN")) == []
    assert fields(piece(["fd00::1"], kind="IPv6")) == []

    (cause,) = EndpointSliceStrategy().validate_update(piece(["fd00::1"], kind="IPv6"), piece(), "")
    assert (cause.field, cause.message) == ("addressType", 'Invalid value: "IPv6": field is immutable')


def test_long_lists_are_shown_by_their_beginning() -> None:
    (slices,) = resources(Options())
    full = piece([f"10.1.0.{number}" for number in range(5)], [{"port": 80}, {"name": "a"}, {}])
    full["ports"][2]["name"] = ""
    cells = {column.name: column.cell(full) for column in slices.columns if column.name != "Age"}

    assert (cells["AddressType"], cells["Ports"]) == ("IPv4", "80,a,*")
    assert cells["Endpoints"] == "10.1.0.0,10.1.0.1,10.1.0.2 + 2 more..."
