"""Tests for CSI drivers and StorageVersions: gated fields, generations and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds import storage_versions
from apiserver_stub.kinds.storage import DriverStrategy, resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings
from nodeagent.base.release import Release

FIELDS = [
    ("seLinuxMount", "SELinuxMountReadWriteOncePod", 30),
    ("preventPodSchedulingIfMissing", "VolumeLimitScaling", 36),
]


def driver(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "d", "generation": 1}, "spec": {"attachRequired": True, **spec}}


def strategy(minor: int = 36, **gates: bool) -> DriverStrategy:
    release = Release(1, minor)
    return DriverStrategy(build_gates(gates, release), release)


@pytest.mark.parametrize(("field", "gate", "minor"), FIELDS)
@pytest.mark.parametrize("enabled", [True, False])
def test_fields_and_their_defaults_need_a_gate(field: str, gate: str, minor: int, enabled: bool) -> None:
    found = strategy(minor, **{gate: enabled})
    new, sent, kept = driver(), driver(**{field: True}), driver(**{field: True})

    found.default(new)
    found.prepare_create(sent)
    found.prepare_update(kept, driver(**{field: False}), "")

    assert (field in new["spec"], field in sent["spec"], field in kept["spec"]) == (enabled, enabled, True)


@pytest.mark.parametrize(("field", "gate", "minor"), FIELDS)
def test_fields_are_required_while_their_gate_is_enabled(field: str, gate: str, minor: int) -> None:
    enabled, disabled = (
        {cause.field for cause in strategy(minor, **{gate: value}).validate(driver())} for value in (True, False)
    )

    assert (f"spec.{field}" in enabled, f"spec.{field}" in disabled) == (True, False)


@pytest.mark.parametrize(
    ("minor", "field", "counted"),
    [
        (32, "requiresRepublish", True),
        (32, "tokenRequests", True),
        (32, "storageCapacity", False),
        (33, "storageCapacity", True),
        (33, "requiresRepublish", True),
    ],
)
def test_generation_counts_fields_by_release(minor: int, field: str, *, counted: bool) -> None:
    new, same = driver(**{field: True}), driver(**{field: True})

    strategy(minor).prepare_update(new, driver(), "")
    strategy(minor).prepare_update(same, driver(**{field: True}), "")

    assert (new["metadata"]["generation"], same["metadata"]["generation"]) == (2 if counted else 1, 1)


@pytest.mark.parametrize(
    ("spec", "audiences", "modes"),
    [
        ({}, "<unset>", "<none>"),
        ({"tokenRequests": [], "volumeLifecycleModes": []}, "", "<none>"),
        ({"tokenRequests": [{"audience": "a"}, {}], "volumeLifecycleModes": ["A", "B"]}, "a,", "A,B"),
    ],
)
def test_audiences_and_modes_of_drivers_are_shown(spec: Any, audiences: str, modes: str) -> None:
    found = next(item for item in resources(kind_settings(parse([]))) if item.kind == "CSIDriver")
    cells = {column.name: column.cell(driver(**spec)) for column in found.columns}

    assert (cells["TokenRequests"], cells["Modes"]) == (audiences, modes)


@pytest.mark.parametrize(
    ("status", "cells"),
    [
        (None, ["<unset>", ""]),
        (
            {
                "commonEncodingVersion": "v1",
                "storageVersions": [{"apiServerID": "a", "encodingVersion": "v1", "decodableVersions": ["v1"]}],
            },
            ["v1", "a=v1"],
        ),
    ],
)
def test_columns_of_storage_versions(status: Any, cells: list[str]) -> None:
    (found,) = storage_versions.resources(kind_settings(parse([])))
    obj = {"metadata": {"name": "a"}, "status": status}

    assert [column.cell(obj) for column in found.columns[1:3]] == cells
    assert found.strategy.validate_update(obj, obj, "status") == []
    assert found.strategy.validate_update(obj, obj, "") == []
