"""Tests for storage kinds that depend on the release and feature gates."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.storage import AttachmentStrategy, DriverStrategy
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

GATED = {
    "nodeAllocatableUpdatePeriodSeconds": 60,
    "preventPodSchedulingIfMissing": True,
    "seLinuxMount": True,
    "serviceAccountTokenInSecrets": True,
}


@pytest.mark.parametrize(
    ("minor", "gates", "kept"),
    [
        (29, {}, {"seLinuxMount"}),
        (33, {"MutableCSINodeAllocatableCount": True}, {"nodeAllocatableUpdatePeriodSeconds", "seLinuxMount"}),
        (35, {}, {"nodeAllocatableUpdatePeriodSeconds", "seLinuxMount", "serviceAccountTokenInSecrets"}),
        (36, {"VolumeLimitScaling": True}, set(GATED)),
    ],
)
def test_driver_fields_exist_with_their_gates(minor: int, gates: dict[str, bool], kept: set[str]) -> None:
    release = Release(1, minor)
    strategy, new = DriverStrategy(build_gates(gates, release), release), {"metadata": {}, "spec": dict(GATED)}

    strategy.prepare_create(new)

    assert set(new["spec"]) == kept


def test_stored_driver_keeps_fields_of_a_disabled_gate() -> None:
    strategy, old = DriverStrategy(build_gates({})), {"metadata": {"generation": 1}, "spec": dict(GATED)}
    new: dict[str, Any] = {"metadata": {}, "spec": dict(GATED)}

    strategy.prepare_update(new, old, "")

    assert new["spec"] == GATED


@pytest.mark.parametrize(("minor", "generation"), [(29, None), (36, 2)])
def test_changes_of_a_driver_are_counted_by_release(minor: int, generation: int | None) -> None:
    release = Release(1, minor)
    strategy = DriverStrategy(build_gates({}, release), release)
    new: dict[str, Any] = {"metadata": {}, "spec": {"podInfoOnMount": True}}

    strategy.prepare_update(new, {"metadata": {"generation": 1}, "spec": {}}, "")

    assert new["metadata"].get("generation") == generation


@pytest.mark.parametrize(("minor", "kept"), [(29, False), (36, True)])
def test_attachment_errors_have_codes_by_release(minor: int, kept: bool) -> None:
    release = Release(1, minor)
    strategy = AttachmentStrategy(build_gates({}, release), Identity(), release)
    new: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"attachError": {"errorCode": 8}}}

    strategy.prepare_update(new, {"metadata": {}, "spec": {}, "status": {}}, "status")

    assert ("errorCode" in new["status"]["attachError"]) is kept


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], []),
        (["--feature-gates=VolumeAttributesClass=true", "--runtime-config=api/all=true"], ["v1alpha1"]),
        (["--compatibility-version=1.33"], []),
        (["--compatibility-version=1.34"], ["v1"]),
        (["--compatibility-version=1.35", "--runtime-config=api/all=true"], ["v1", "v1beta1", "v1alpha1"]),
        (["--compatibility-version=1.36", "--runtime-config=api/all=true"], ["v1", "v1beta1"]),
    ],
)
def test_volume_attributes_classes_are_served_by_release(options: list[str], expected: list[str]) -> None:
    registry = build_registry(parse(options))

    assert [item.version for item in registry if item.plural == "volumeattributesclasses"] == expected
