"""Tests for the validation of runtime classes and the warnings about them."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.runtime_classes import (
    runtime_class_warnings,
    validate_runtime_class,
    validate_runtime_class_update,
)
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

_TOLERATION = {"key": "a", "operator": "Exists"}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, []),
        ({"handler": ""}, ["handler"]),
        ({"handler": "a.b"}, ["handler"]),
        ({"overhead": {"podFixed": {"cpu": "1m"}}}, []),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, ["overhead.limits[cpu]"]),
        ({"scheduling": {"nodeSelector": {"-": ""}}}, ["scheduling.nodeSelector"]),
        ({"scheduling": {"tolerations": [{}]}}, ["scheduling.tolerations.tolerations[0].operator"]),
        ({"scheduling": {"tolerations": [_TOLERATION, _TOLERATION]}}, ["scheduling.tolerations[1]"]),
        ({"scheduling": {"tolerations": [_TOLERATION, {**_TOLERATION, "key": "b"}]}}, []),
        ({"scheduling": {"tolerations": [_TOLERATION, {**_TOLERATION, "value": ""}]}}, ["scheduling.tolerations[1]"]),
    ],
)
def test_runtime_class_is_validated(changes: Any, fields: list[str]) -> None:
    assert [cause.field for cause in validate_runtime_class({"handler": "runc", **changes}, Identity())] == fields


def test_handler_of_a_runtime_class_is_immutable() -> None:
    assert [cause.field for cause in validate_runtime_class_update({"handler": "b"}, {"handler": "a"})] == ["handler"]


def test_deprecated_node_label_of_a_runtime_class_is_warned_about() -> None:
    selector = {"beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"}
    warnings = runtime_class_warnings({"handler": "runc", "scheduling": {"nodeSelector": selector}}, Identity())
    assert warnings == ['scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead']


@pytest.mark.parametrize(("minor", "reason"), [(35, "FieldValueInvalid"), (36, "FieldValueRequired")])
def test_missing_handler_is_reported_by_release(minor: int, reason: str) -> None:
    causes = validate_runtime_class({"handler": ""}, Identity(), Release(1, minor))

    assert [(cause.field, cause.reason) for cause in causes] == [("handler", reason)]
