"""Tests for the columns of services."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.services import resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


@pytest.mark.parametrize(
    ("spec", "ingress", "shown"),
    [
        ({"type": "ClusterIP"}, [], "<none>"),
        ({"type": "NodePort", "externalIPs": ["192.0.2.1", "192.0.2.2"]}, [], "192.0.2.1,192.0.2.2"),
        ({"type": "ExternalName", "externalName": "db.example.com"}, [], "db.example.com"),
        ({"type": "LoadBalancer"}, [], "<pending>"),
        ({"type": "LoadBalancer"}, [{"ip": "192.0.2.7"}, {"hostname": "lb.example.com"}], "192.0.2.7,lb.example.com"),
        ({"type": "LoadBalancer", "externalIPs": ["192.0.2.1"]}, [{"ip": "192.0.2.7"}], "192.0.2.7,192.0.2.1"),
    ],
)
def test_external_ip_column(spec: dict[str, Any], ingress: list[dict[str, str]], shown: str) -> None:
    (column,) = [item for item in resources(kind_settings(parse([])))[0].columns if item.name == "External-IP"]

    assert column.cell({"spec": spec, "status": {"loadBalancer": {"ingress": ingress}}}) == shown
