"""Tests for endpoint slices: addresses, ports, generation and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.endpoint_slices import EndpointSliceStrategy, resources
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import kind_settings
from nodeagent.base.identity import Identity


def piece(addresses: Any = ("10.1.0.1",), ports: Any = ({"port": 80},), kind: str = "IPv4") -> dict[str, Any]:
    endpoints = [{"addresses": list(addresses)}]
    made = {"metadata": {"name": "s"}, "addressType": kind, "endpoints": endpoints, "ports": [*map(dict, ports)]}
    EndpointSliceStrategy(Identity()).default(made)
    return made


def fields(made: dict[str, Any]) -> list[str]:
    return [cause.field for cause in EndpointSliceStrategy(Identity()).validate(made)]


def test_ports_have_default_name_and_protocol() -> None:
    made = piece()
    assert made["ports"] == [{"port": 80, "name": "", "protocol": "TCP"}]
    assert fields(made) == []


@pytest.mark.parametrize(
    ("change", "is_counted"),
    [
        ({}, False),
        ({"ports": [{"name": "a"}]}, True),
        ({"endpoints": [{"addresses": ["10.1.0.1"], "deprecatedTopology": {"a": "b"}}]}, True),
        ({"metadata": {"name": "s", "annotations": {"a": "b"}}}, False),
        ({"metadata": {"name": "s", "labels": {"a": "b"}}}, True),
    ],
)
def test_generation_changes_with_content_and_labels(change: dict[str, Any], is_counted: bool) -> None:
    assert EndpointSliceStrategy(Identity()).is_counted(piece() | change, piece()) is is_counted


def with_topology(**labels: str) -> dict[str, Any]:
    made = piece()
    made["endpoints"][0]["deprecatedTopology"] = labels
    return made


def test_topology_of_new_slice_is_dropped() -> None:
    made = with_topology(a="b")

    EndpointSliceStrategy(Identity()).canonicalize(made, None)

    assert made["endpoints"] == [{"addresses": ["10.1.0.1"]}]


def test_topology_of_unchanged_endpoints_is_kept() -> None:
    made = with_topology(a="b")

    EndpointSliceStrategy(Identity()).canonicalize(made, with_topology(a="b"))

    assert made["endpoints"][0]["deprecatedTopology"] == {"a": "b"}


@pytest.mark.parametrize(("node", "expected"), [("n", {"nodeName": "n"}), ("other", {})])
def test_node_of_dropped_topology_becomes_the_node_name(node: str, expected: dict[str, str]) -> None:
    made = with_topology(**{"kubernetes.io/hostname": node, "c": "d"})

    EndpointSliceStrategy(Identity()).canonicalize(made, with_topology(**{"kubernetes.io/hostname": "n"}))

    assert made["endpoints"] == [{"addresses": ["10.1.0.1"], **expected}]


def with_node_hints() -> dict[str, Any]:
    made = piece()
    made["endpoints"][0]["hints"] = {"forNodes": [{"name": "Node_1"}], "forZones": [{"name": "a b"}]}
    return made


def test_hints_for_nodes_are_kept_if_they_are_enabled_or_in_use() -> None:
    for has_node_hints in (False, True):
        strategy, new = EndpointSliceStrategy(Identity(), has_node_hints=has_node_hints), with_node_hints()
        strategy.prepare_create(new)
        assert ("forNodes" in new["endpoints"][0]["hints"]) is has_node_hints
    updated, unused = with_node_hints(), with_node_hints()
    EndpointSliceStrategy(Identity()).prepare_update(updated, with_node_hints(), "")
    EndpointSliceStrategy(Identity()).prepare_update(unused, piece(), "")
    assert "forNodes" in updated["endpoints"][0]["hints"]
    assert "forNodes" not in unused["endpoints"][0]["hints"]


def test_hints_name_zones_and_nodes() -> None:
    made = with_node_hints()
    hints = made["endpoints"][0]["hints"]
    field = "endpoints[0].hints"
    assert fields(made) == [f"{field}.forZones[0].name", f"{field}.forNodes[0].name"]
    hints["forNodes"], hints["forZones"] = [{"name": f"n{number}"} for number in range(9)], [{"name": "a"}] * 2
    assert fields(made) == [f"{field}.forZones[1].name", f"{field}.forNodes"]


def test_new_fqdn_slice_causes_a_warning() -> None:
    made = piece(["web.example.com"], kind="FQDN")

    assert EndpointSliceStrategy(Identity()).warnings(made, None) == ["spec.addressType: FQDN endpoints are deprecated"]
    assert EndpointSliceStrategy(Identity()).warnings(made, made) == []


def test_fqdn_addresses_are_valid_and_the_type_is_immutable() -> None:
    assert fields(piece(["web.example.com"], kind="FQDN")) == []
    assert fields(piece(["fd00::1"], kind="IPv6")) == []

    (cause,) = EndpointSliceStrategy(Identity()).validate_update(piece(["fd00::1"], kind="IPv6"), piece(), "")
    assert (cause.field, cause.message) == ("addressType", 'Invalid value: "IPv6": field is immutable')


def test_long_lists_are_abbreviated_in_columns() -> None:
    (slices,) = resources(kind_settings(Options()))
    full = piece([f"10.1.0.{number}" for number in range(5)], [{"port": 80}, {"name": "a"}, {}])
    full["ports"][2]["name"] = ""
    cells = {column.name: column.cell(full) for column in slices.columns if column.name != "Age"}

    assert (cells["AddressType"], cells["Ports"]) == ("IPv4", "80,a,")
    assert cells["Endpoints"] == "10.1.0.0,10.1.0.1,10.1.0.2 + 2 more..."
