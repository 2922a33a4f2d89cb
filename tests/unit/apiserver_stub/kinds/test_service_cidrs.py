"""Tests for ServiceCIDRs and IPAddresses: status, versions and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.service_cidrs import resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def of(kind: str, release: str, *arguments: str) -> list[Any]:
    settings = kind_settings(parse([f"--compatibility-version={release}", *arguments]))
    return [item for item in resources(settings) if item.kind == kind]


WIPES = "--feature-gates=ServiceCIDRStatusFieldWiping="


@pytest.mark.parametrize(
    ("release", "arguments", "is_wiped"),
    [
        ("1.30", [], False),
        ("1.31", [f"{WIPES}true"], True),
        ("1.36", [f"{WIPES}true"], True),
        ("1.36", [f"{WIPES}false"], False),
    ],
)
def test_writes_reset_the_status(release: str, arguments: list[str], *, is_wiped: bool) -> None:
    strategy = of("ServiceCIDR", release, *arguments)[0].strategy
    new, old = ({"metadata": {"name": "c"}, "spec": {}, "status": {"a": text}} for text in "xy")

    strategy.prepare_update(new, old, "")
    created = {"metadata": {"name": "c"}, "spec": {}, "status": {"a": "z"}}
    strategy.prepare_create(created)

    assert (new["status"] == {"a": "y"}, created["status"] == {}) == (is_wiped, is_wiped)


def test_each_version_knows_the_other() -> None:
    for kind in ("ServiceCIDR", "IPAddress"):
        found = {item.version: set(item.renamed_fields) for item in of(kind, "1.33")}
        assert found == {"v1": {"networking.k8s.io/v1beta1"}, "v1beta1": {"networking.k8s.io/v1"}}


@pytest.mark.parametrize(
    ("spec", "text"), [({}, ""), ({"cidrs": ["10.0.0.0/24", "fd00::/64"]}, "10.0.0.0/24,fd00::/64")]
)
def test_ranges_are_shown(spec: Any, text: str) -> None:
    assert of("ServiceCIDR", "1.33")[0].columns[1].cell({"metadata": {"name": "c"}, "spec": spec}) == text


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (None, "<none>"),
        ({"resource": "services", "namespace": "n", "name": "s"}, "services/n/s"),
        ({"group": "G", "resource": "as", "name": "s"}, "as.g/s"),
    ],
)
def test_parent_of_an_address_is_shown(reference: Any, text: str) -> None:
    address = {"metadata": {"name": "10.0.0.1"}, "spec": {"parentRef": reference}}

    assert of("IPAddress", "1.33")[0].columns[1].cell(address) == text
