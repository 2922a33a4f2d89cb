"""Tests for the kinds of dynamic resource allocation in their earlier versions."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.devices import FlatStrategy, resources
from apiserver_stub.kinds.registry import Strategy
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def test_kind_with_the_same_structure_in_all_versions_is_unchanged() -> None:
    strategy, device_class = FlatStrategy("DeviceClass", Strategy()), {"metadata": {"name": "gpu"}, "spec": {}}

    strategy.default(device_class)
    strategy.prepare_create(device_class)

    assert device_class == {"metadata": {"name": "gpu"}, "spec": {}}


def of(kind: str, version: str = "v1", *arguments: str) -> Any:
    settings = kind_settings(parse(["--compatibility-version=1.36", "--runtime-config=api/all=true", *arguments]))
    return next(item for item in resources(settings) if (item.kind, item.version) == (kind, version))


@pytest.mark.parametrize(
    ("version", "request_fields"),
    [("v1beta1", {"deviceClassName": "c"}), ("v1", {"exactly": {"deviceClassName": "c"}})],
)
def test_early_version_has_flat_requests(version: str, request_fields: Any) -> None:
    found = of("ResourceClaim", version)
    claim: Any = {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceClaim", "metadata": {"name": "c"}}
    claim["spec"] = {"devices": {"requests": [{"name": "r", **request_fields}]}}

    found.strategy.default(claim)
    found.strategy.prepare_create(claim)

    assert found.strategy.validate(claim) == []
    assert set(found.renamed_fields) == {
        f"resource.k8s.io/{other}" for other in ("v1", "v1beta2", "v1beta1") if other != version
    }


@pytest.mark.parametrize(
    ("metadata", "status", "expected"),
    [
        ({}, None, "pending"),
        ({}, {"allocation": {}}, "allocated"),
        ({}, {"allocation": {}, "reservedFor": [{}]}, "allocated,reserved"),
        ({}, {"reservedFor": [{}]}, "pending"),
        ({"deletionTimestamp": "t"}, {}, "deleted"),
        ({"deletionTimestamp": "t"}, {"allocation": {}}, "deleted,allocated"),
    ],
)
def test_state_of_a_claim_is_shown(metadata: Any, status: Any, expected: str) -> None:
    assert of("ResourceClaim").columns[1].cell({"metadata": metadata, "status": status}) == expected


def device(name: str) -> dict[str, str]:
    return {"driver": "d", "pool": "p", "device": name}


@pytest.mark.parametrize(
    ("allocated", "expected"),
    [(["a", "b"], ["a", "b"]), (["a"], ["a"]), ([], None), (None, None)],
)
def test_status_of_deallocated_devices_is_dropped(allocated: list[str] | None, expected: list[str] | None) -> None:
    def claim(names: list[str] | None) -> Any:
        results = [{"request": "r", **device(name)} for name in names or ()]
        allocation = {} if names is None else {"allocation": {"devices": {"results": results}}}
        status = {**allocation, "devices": [device("a"), device("b")]}
        return {"metadata": {"name": "c"}, "spec": {"devices": {}}, "status": status}

    new = claim(allocated)
    of("ResourceClaim").strategy.prepare_update(new, claim(["a", "b"]), "status")

    found = new["status"].get("devices")
    assert (found and [item["device"] for item in found]) == expected


def test_status_of_a_claim_may_be_removed() -> None:
    old = {"metadata": {"name": "c"}, "spec": {}, "status": {"allocation": {"devices": {"results": [device("a")]}}}}
    new = {**old, "status": None}

    of("ResourceClaim").strategy.prepare_update(new, old, "status")

    assert not new["status"]


@pytest.mark.parametrize(("driver", "warns"), [("gpu.example.com", False), ("GPU.example.com", True), (None, False)])
def test_upper_case_driver_causes_a_warning(driver: str | None, *, warns: bool) -> None:
    assert bool(of("ResourceSlice").strategy.warnings({"spec": {"driver": driver}}, None)) is warns


def test_stored_class_may_have_no_specification() -> None:
    old, new = ({"metadata": {"name": "c", "resourceVersion": "1"}, "spec": spec} for spec in (None, {}))

    assert of("DeviceClass").strategy.validate_update(new, old, "") == []
