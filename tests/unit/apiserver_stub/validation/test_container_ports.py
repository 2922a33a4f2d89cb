"""Tests for the validation of container ports."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation import container_ports


def found(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ({"containerPort": 80, "protocol": "TCP", "name": "http"}, []),
        ({"protocol": "TCP"}, ["Required p[0].containerPort"]),
        ({"containerPort": 70000, "protocol": "TCP"}, ["Invalid p[0].containerPort"]),
        ({"containerPort": 80, "hostPort": -1, "protocol": "TCP"}, ["Invalid p[0].hostPort"]),
        ({"containerPort": 80, "protocol": "tcp"}, ["NotSupported p[0].protocol"]),
        ({"containerPort": 80, "protocol": "TCP", "name": "80"}, ["Invalid p[0].name"]),
    ],
)
def test_fields_of_a_port(port: dict[str, Any], expected: list[str]) -> None:
    assert found(container_ports.validate_container_ports([port], "p")) == expected


def test_duplicate_port_name_is_an_error() -> None:
    port = {"containerPort": 80, "protocol": "TCP", "name": "http"}

    assert found(container_ports.validate_container_ports([port, port], "p")) == ["Duplicate p[1].name"]


def test_host_ports_are_unique_by_protocol_and_address() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"},
        {"containerPort": 81, "hostPort": 80, "protocol": "UDP"},
        {"containerPort": 82, "hostPort": 80, "protocol": "TCP", "hostIP": "10.0.0.1"},
        {"containerPort": 83, "hostPort": 80, "protocol": "TCP"},
    ]

    assert found(container_ports.validate_host_ports([{"ports": ports}], "c")) == ["Duplicate c[0].ports[3].hostPort"]


@pytest.mark.parametrize(("is_pod", "count"), [(True, 2), (False, 1)])
def test_host_network_requires_equal_host_ports(is_pod: bool, count: int) -> None:
    containers = [{"ports": [{"containerPort": 80}, {"containerPort": 80, "hostPort": 81}]}]

    assert len(container_ports.validate_host_network_ports(containers, "c", is_pod=is_pod)) == count


@pytest.mark.parametrize(("port", "count"), [(80, 0), (0, 1), (70000, 1), ("http", 0), ("80", 1), ("", 2)])
def test_port_by_number_or_name(port: int | str, count: int) -> None:
    assert len(container_ports.validate_port_number_or_name(port, "f")) == count
