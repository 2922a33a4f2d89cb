"""Tests for zero shares and versions of PriorityLevelConfigurations."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds.flow_control import resources
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings

GROUP = "flowcontrol.apiserver.k8s.io"
ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def of(version: str, kind: str = "PriorityLevelConfiguration", release: str = "1.29") -> Resource:
    found = resources(kind_settings(parse([f"--compatibility-version={release}"])))
    return next(item for item in found if (item.kind, item.version) == (kind, version))


def level(version: str, shares: int | None = None, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    limited = {"limitResponse": {"type": "Reject"}, **({} if shares is None else {"nominalConcurrencyShares": shares})}
    metadata = {"name": "l", **({"annotations": annotations} if annotations is not None else {})}
    kind = {"kind": "PriorityLevelConfiguration", "apiVersion": f"{GROUP}/{version}"}
    return {**kind, "metadata": metadata, "spec": {"type": "Limited", "limited": limited, **spec}}


@pytest.mark.parametrize(
    ("obj", "shares", "annotations"),
    [
        (level("v1beta3"), 30, None),
        (level("v1beta3", annotations={ZERO: "", "a": "b"}), 0, {"a": "b"}),
        (level("v1beta3", 5, {ZERO: ""}), 5, {}),
        (level("v1beta3", annotations={"a": "b"}), 30, {"a": "b"}),
        (level("v1", annotations={ZERO: ""}), 30, {ZERO: ""}),
        (level("v1", 0), 0, None),
    ],
)
def test_annotation_of_the_early_version_states_zero_shares(obj: Any, shares: int, annotations: Any) -> None:
    of(obj["apiVersion"].partition("/")[2]).strategy.default(obj)

    assert obj["spec"]["limited"]["nominalConcurrencyShares"] == shares
    assert obj["metadata"].get("annotations") == annotations


def test_level_without_limits_has_no_shares() -> None:
    obj = {**level("v1beta3", annotations={ZERO: ""}), "spec": {"type": "Exempt"}}

    of("v1beta3").strategy.default(obj)

    assert "limited" not in obj["spec"]


@pytest.mark.parametrize(
    ("obj", "version", "annotations"),
    [
        (level("v1", 0), "v1beta3", {ZERO: ""}),
        (level("v1", 0, {"a": "b"}), "v1beta3", {"a": "b", ZERO: ""}),
        (level("v1", 5), "v1beta3", None),
        (level("v1beta3", 0, {ZERO: ""}), "v1", None),
        (level("v1beta3", 0, {ZERO: "", "a": "b"}), "v1", {"a": "b"}),
    ],
)
def test_zero_shares_are_kept_by_conversions(obj: Any, version: str, annotations: Any) -> None:
    convert = of(version).convert
    assert convert is not None

    found = convert(obj)

    assert found["apiVersion"] == f"{GROUP}/{version}"
    assert found["spec"] == obj["spec"]
    assert found["metadata"] == {"name": "l", **({"annotations": annotations} if annotations else {})}


def test_annotation_is_forbidden_in_stored_objects() -> None:
    strategy = of("v1").strategy

    assert [cause.field for cause in strategy.validate(level("v1", 5, {ZERO: ""}))] == ["metadata.annotations"]
    assert strategy.validate(level("v1", 5, {"a": "b"})) == []


@pytest.mark.parametrize("kind", ["FlowSchema", "PriorityLevelConfiguration"])
def test_early_version_is_deprecated_and_each_version_knows_the_other(kind: str) -> None:
    stable, early = of("v1", kind), of("v1beta3", kind)

    assert (stable.deprecation, early.deprecation is None) == (None, False)
    assert (set(stable.renamed_fields), set(early.renamed_fields)) == ({f"{GROUP}/v1beta3"}, {f"{GROUP}/v1"})
    assert of("v1", kind, "1.32").renamed_fields == {}
