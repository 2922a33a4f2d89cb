"""Tests for PodCertificateRequests: releases, immutability and columns."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.pod_certificate_requests import resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def served(release: str, *, enabled: bool = True) -> list[Any]:
    gate = f"--feature-gates=PodCertificateRequest={str(enabled).lower()}"
    arguments = [f"--compatibility-version={release}", *([gate] if release >= "1.34" else [])]
    return resources(kind_settings(parse(arguments)))


@pytest.mark.parametrize(
    ("release", "enabled", "versions"),
    [
        ("1.33", True, []),
        ("1.34", True, ["v1alpha1"]),
        ("1.34", False, []),
        ("1.35", True, ["v1beta1"]),
        ("1.36", True, ["v1beta1"]),
    ],
)
def test_version_follows_the_release(release: str, versions: list[str], *, enabled: bool) -> None:
    assert [item.version for item in served(release, enabled=enabled)] == versions


@pytest.mark.parametrize(
    ("old", "new", "is_valid"),
    [
        ({"a": "b"}, {"a": "b"}, True),
        ({"a": "b"}, {"a": "c"}, False),
        (None, {}, True),
        ({}, None, True),
        (None, {"a": "b"}, False),
    ],
)
def test_specification_is_immutable(old: Any, new: Any, *, is_valid: bool) -> None:
    (found,) = served("1.35")

    causes = found.strategy.validate_update({"spec": new}, {"spec": old}, "")

    assert [cause.message.endswith("field is immutable") for cause in causes] == ([] if is_valid else [True])


def test_request_without_a_specification_is_invalid() -> None:
    (found,) = served("1.35")

    assert found.strategy.validate({"metadata": {"name": "r"}, "spec": None})


@pytest.mark.parametrize(
    ("spec", "status", "cells"),
    [
        ({}, {}, ["Pending", "<none>"]),
        (
            {"unverifiedUserAnnotations": {"b": "2", "a": "1"}},
            {"conditions": [{"type": "Issued", "status": "True"}]},
            ["Issued", "a=1,b=2"],
        ),
    ],
)
def test_state_and_annotations_are_shown(spec: Any, status: Any, cells: list[str]) -> None:
    (found,) = served("1.35")

    request = {"metadata": {"name": "r"}, "spec": spec, "status": status}
    assert [column.cell(request) for column in found.columns[-2:]] == cells
