"""Tests for tables of default values."""

from __future__ import annotations

from typing import Any

from apiserver_stub.defaulting.table import Defaults


def _port_rule(port: dict[str, Any]) -> None:
    port.setdefault("targetPort", port["port"])


PORT = Defaults({"protocol": "TCP"}, _port_rule)
SPEC = Defaults({"type": "ClusterIP", "options": {"a": 1}}, below={"ports": PORT, "main": PORT})


def test_absent_fields_get_their_defaults():
    spec = {"type": "NodePort", "ports": [{"port": 80}, {"port": 53, "protocol": "UDP", "targetPort": 5353}]}

    SPEC.apply(spec)

    assert spec == {
        "type": "NodePort",
        "options": {"a": 1},
        "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80},
            {"port": 53, "protocol": "UDP", "targetPort": 5353},
        ],
    }


def test_default_objects_are_not_shared():
    one: dict[str, Any] = {}
    other: dict[str, Any] = {}
    SPEC.apply(one)
    one["options"]["a"] = 2

    SPEC.apply(other)

    assert other["options"] == {"a": 1}


def test_object_in_a_field_gets_the_defaults_of_its_table():
    spec = {"main": {"port": 1}}

    SPEC.apply(spec)

    assert spec["main"] == {"port": 1, "protocol": "TCP", "targetPort": 1}
