"""Tests for the validation of the subsets of endpoints."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.endpoints import validate_subsets

_ADDRESS = {"ip": "10.0.0.1"}
_PORT = {"port": 80, "protocol": "TCP"}


@pytest.mark.parametrize(
    ("subset", "expected"),
    [
        ({"addresses": [_ADDRESS]}, []),
        ({"notReadyAddresses": [_ADDRESS], "ports": [_PORT]}, []),
        ({}, ["subsets[0]"]),
        ({"addresses": [{"ip": "x"}]}, ["subsets[0].addresses[0].ip"] * 2),
        ({"addresses": [{"ip": "127.0.0.1"}]}, ["subsets[0].addresses[0].ip"]),
        ({"addresses": [_ADDRESS | {"hostname": "a.b"}]}, ["subsets[0].addresses[0].hostname"]),
        ({"addresses": [_ADDRESS | {"nodeName": ""}]}, ["subsets[0].addresses[0].nodeName"]),
        ({"addresses": [_ADDRESS], "ports": [_PORT | {"port": 0}]}, ["subsets[0].ports[0].port"]),
        ({"addresses": [_ADDRESS], "ports": [_PORT | {"protocol": "X"}]}, ["subsets[0].ports[0].protocol"]),
        (
            {
                "addresses": [_ADDRESS],
                "ports": [_PORT, _PORT | {"name": "b"}],
            },
            ["subsets[0].ports[0].name"],
        ),
        (
            {"addresses": [_ADDRESS], "ports": [_PORT | {"appProtocol": "a b"}]},
            ["subsets[0].ports[0].appProtocol"],
        ),
    ],
)
def test_errors_of_subset_are_reported(subset: dict[str, Any], expected: list[str]) -> None:
    assert [cause.field for cause in validate_subsets([subset])] == expected
