"""Tests for the columns of services and endpoints in tables."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry


def cells(plural: str, obj: dict[str, Any]) -> dict[str, Any]:
    resource = build_registry(parse([])).find("", "v1", plural)
    assert resource is not None
    return {column.name: column.cell({"metadata": {"name": "s"}, **obj}) for column in resource.columns}


@pytest.mark.parametrize(
    ("spec", "ports", "selector"),
    [
        ({}, "<none>", "<none>"),
        ({"ports": [], "selector": {}}, "<none>", "<none>"),
        ({"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}, "80/TCP,53/UDP", "<none>"),
        ({"ports": [{"port": 80, "nodePort": 30000}], "selector": {"b": "2", "a": "1"}}, "80:30000/TCP", "a=1,b=2"),
    ],
)
def test_ports_and_selector_of_a_service(spec: dict[str, Any], ports: str, selector: str) -> None:
    found = cells("services", {"spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", **spec}})

    assert (found["Port(s)"], found["Selector"]) == (ports, selector)


@pytest.mark.parametrize(
    ("subsets", "endpoints"),
    [
        ([], "<none>"),
        ([{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}], "10.0.0.1:80"),
        (
            [{"addresses": [{"ip": f"10.0.0.{n}"} for n in range(5)], "ports": [{"port": 80}]}],
            "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more...",
        ),
    ],
)
def test_endpoints_show_three_addresses(subsets: list[dict[str, Any]], endpoints: str) -> None:
    assert cells("endpoints", {"subsets": subsets})["Endpoints"] == endpoints
