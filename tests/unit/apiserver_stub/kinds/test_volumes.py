"""Strategies of persistent volumes and claims: fields behind gates, data sources and times."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.volumes import ClaimStrategy, VolumeStrategy
from nodeagent.base.identity import Identity

SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
OTHER = {"apiGroup": "example.com", "kind": "Thing", "name": "t"}
THEN, LATER = "2024-01-02T03:04:05Z", "2024-02-03T04:05:06Z"


def claim(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {**spec}, "status": status or {}}


@pytest.mark.parametrize(
    ("gates", "spec", "stored"),
    [
        ({}, {"dataSource": SNAPSHOT}, {"dataSource": SNAPSHOT, "dataSourceRef": SNAPSHOT}),
        ({}, {"dataSourceRef": OTHER}, {"dataSource": OTHER, "dataSourceRef": OTHER}),
        ({}, {"dataSource": OTHER}, {}),
        ({}, {"dataSourceRef": {**SNAPSHOT, "namespace": "n"}}, {}),
        (
            {"CrossNamespaceVolumeDataSource": True},
            {"dataSourceRef": {**SNAPSHOT, "namespace": "n"}},
            {"dataSourceRef": {**SNAPSHOT, "namespace": "n"}},
        ),
        ({"AnyVolumeDataSource": False}, {"dataSourceRef": OTHER}, {}),
        ({}, {"volumeAttributesClassName": "a"}, {}),
        ({"VolumeAttributesClass": True}, {"volumeAttributesClassName": "a"}, {"volumeAttributesClassName": "a"}),
    ],
)
def test_new_claim_has_the_fields_of_enabled_features(
    gates: dict[str, bool], spec: dict[str, Any], stored: dict[str, Any]
) -> None:
    new = claim(spec)

    ClaimStrategy(build_gates(gates), Identity()).prepare_create(new)

    assert new["spec"] == stored


def test_source_of_a_stored_claim_is_kept() -> None:
    new, old = claim({"dataSource": OTHER}), claim({"dataSource": OTHER})

    ClaimStrategy(build_gates({}), Identity()).prepare_update(new, old, "")

    assert new["spec"] == {"dataSource": OTHER, "dataSourceRef": OTHER}


def test_status_of_a_claim_has_the_fields_of_enabled_features() -> None:
    status = {"phase": "Bound", "modifyVolumeStatus": {}, "allocatedResources": {"storage": "1"}}
    new, old = claim({}, status), claim({}, {"allocatedResources": {"storage": "2"}})

    ClaimStrategy(build_gates({}), Identity()).prepare_update(new, old, "status")

    assert new["status"] == {"phase": "Bound", "allocatedResources": {"storage": "1"}}


def test_zero_time_of_an_unchanged_phase_is_kept() -> None:
    volume = claim({}, {"phase": "Bound", "lastPhaseTransitionTime": None})
    before = claim({}, {"phase": "Bound", "lastPhaseTransitionTime": THEN})

    VolumeStrategy(build_gates({}), Identity()).prepare_update(volume, before, "status")

    assert volume["status"]["lastPhaseTransitionTime"] is None


@pytest.mark.parametrize(
    ("new", "old", "stored"),
    [
        ({"phase": "Bound"}, {"phase": "Bound", "lastPhaseTransitionTime": THEN}, THEN),
        ({"phase": "Bound", "lastPhaseTransitionTime": LATER}, {"phase": "Pending"}, LATER),
        ({"phase": "Bound"}, {"phase": "Pending", "lastPhaseTransitionTime": THEN}, None),
        (
            {"phase": "Bound", "lastPhaseTransitionTime": THEN},
            {"phase": "Pending", "lastPhaseTransitionTime": THEN},
            None,
        ),
    ],
)
def test_change_of_the_phase_is_dated(new: dict[str, Any], old: dict[str, Any], stored: str | None) -> None:
    volume, before = claim({}, new), claim({}, old)

    VolumeStrategy(build_gates({}), Identity()).prepare_update(volume, before, "status")

    time = volume["status"]["lastPhaseTransitionTime"]
    assert time == stored if stored else time not in (THEN, LATER)
