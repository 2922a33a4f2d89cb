"""Tests for the last-applied annotation of client-side ``kubectl apply``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.schema import field_sets, shapes
from apiserver_stub.validation.metadata import ANNOTATIONS_LIMIT_BYTES
from apiserver_stub.verbs import last_applied
from nodeagent.base.identity import Identity

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def config_map(data: dict[str, str], annotation: str | None = None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "c"}
    if annotation is not None:
        metadata["annotations"] = {ANNOTATION: annotation}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def undisputed(annotation: Any) -> Any:
    shape = shapes.of("v1", "ConfigMap", "k8s.io")
    assert shape is not None
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    found = last_applied.undisputed(shape, config_map({"a": "1", "b": "2"}, text), Identity())
    return None if found is None else field_sets.encode(found).get("f:data")


def test_applied_fields_with_their_values_are_undisputed() -> None:
    assert undisputed(config_map({"a": "1", "b": "2"})) == {"f:a": {}, "f:b": {}}
    assert undisputed(config_map({"a": "1", "b": "changed", "c": "removed"})) == {"f:a": {}}


@pytest.mark.parametrize(
    "annotation",
    [
        "",
        "{",
        [],
        {"apiVersion": "v2", "kind": "ConfigMap"},
        {"apiVersion": "v1", "data": {"a": "1"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "unknown": 1},
    ],
)
def test_invalid_annotation_is_ignored(annotation: Any) -> None:
    assert undisputed(annotation) is None


def test_annotation_contains_the_applied_configuration() -> None:
    merged = config_map({"a": "1"}, "old")
    config = config_map({"a": "<&>"}, "other")
    config["metadata"]["annotations"]["x"] = "y"

    last_applied.refresh(merged, config, Identity())

    assert merged["metadata"]["annotations"] == {
        ANNOTATION: '{"apiVersion":"v1","data":{"a":"\\u003c\\u0026\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{"x":"y"},"name":"c"}}\n'
    }
    assert config["metadata"]["annotations"] == {ANNOTATION: "other", "x": "y"}


@pytest.mark.parametrize(("given", "kept"), [({ANNOTATION: "z"}, {"annotations": {}}), (None, {}), ({"a": None}, {})])
def test_other_annotations_are_kept(given: Any, kept: dict[str, Any]) -> None:
    merged, config = config_map({}, "old"), config_map({})
    config["metadata"]["annotations"] = given

    last_applied.refresh(merged, config, Identity())

    applied = json.loads(merged["metadata"]["annotations"][ANNOTATION])
    assert applied["metadata"] == {"name": "c", **kept}


def test_object_without_annotation_gets_none() -> None:
    for merged in (config_map({}), config_map({}, "")):
        before = json.dumps(merged)
        last_applied.refresh(merged, config_map({"a": "1"}), Identity())
        assert json.dumps(merged) == before


@pytest.mark.parametrize(("excess", "kept"), [(0, True), (1, False)])
def test_too_long_annotation_is_removed(excess: int, kept: bool) -> None:
    fixed = config_map({}, "old")
    last_applied.refresh(fixed, config_map({"a": ""}), Identity())
    left = ANNOTATIONS_LIMIT_BYTES - len(ANNOTATION) - len(fixed["metadata"]["annotations"][ANNOTATION])
    merged = config_map({}, "old")

    last_applied.refresh(merged, config_map({"a": "x" * (left + excess)}), Identity())

    assert (ANNOTATION in merged["metadata"]["annotations"]) is kept
