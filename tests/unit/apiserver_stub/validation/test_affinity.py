"""Tests for the validation of node selectors and affinity."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.affinity import PREFERRED, REQUIRED, validate_affinity, validate_node_selector


def found(causes: list[Any]) -> list[str]:
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ({"key": "a", "operator": "In", "values": ["b"]}, []),
        ({"key": "a", "operator": "In"}, ["Required values"]),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, ["Forbidden values"]),
        ({"key": "a", "operator": "Gt", "values": ["1", "2"]}, ["Required values"]),
        ({"key": "a", "operator": "Is"}, ["Invalid operator"]),
        ({"key": "-a", "operator": "Exists"}, ["Invalid key"]),
    ],
)
def test_label_requirements_of_nodes(requirement: dict[str, Any], expected: list[str]) -> None:
    causes = validate_node_selector({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}, "s")

    path = "s.nodeSelectorTerms[0].matchExpressions[0]"
    assert [text.replace(f"{path}.", "") for text in found(causes)] == expected


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ({"key": "metadata.name", "operator": "In", "values": ["node-1"]}, []),
        ({"key": "metadata.name", "operator": "In", "values": ["a", "b"]}, ["Required values"]),
        ({"key": "metadata.name", "operator": "Exists"}, ["Invalid operator"]),
        ({"key": "metadata.name", "operator": "In", "values": ["A"]}, ["Invalid values[0]"]),
        ({"key": "spec.x", "operator": "In", "values": ["a"]}, ["Invalid key"]),
    ],
)
def test_field_requirements_of_nodes(requirement: dict[str, Any], expected: list[str]) -> None:
    causes = validate_node_selector({"nodeSelectorTerms": [{"matchFields": [requirement]}]}, "s")

    path = "s.nodeSelectorTerms[0].matchFields[0]"
    assert [text.replace(f"{path}.", "") for text in found(causes)] == expected


def test_node_selector_without_terms_is_an_error() -> None:
    affinity: dict[str, Any] = {"nodeAffinity": {REQUIRED: {}}}

    assert found(validate_affinity(affinity, "a")) == [f"Required a.nodeAffinity.{REQUIRED}.nodeSelectorTerms"]


def test_weights_are_between_1_and_100() -> None:
    affinity: dict[str, Any] = {
        "nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {}}]},
        "podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "zone"}}]},
    }

    assert found(validate_affinity(affinity, "a")) == [
        f"Invalid a.nodeAffinity.{PREFERRED}[0].weight",
        f"Invalid a.podAffinity.{PREFERRED}[0].weight",
    ]


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({"topologyKey": "zone", "labelSelector": {}, "namespaces": ["other"]}, []),
        ({}, ["Required topologyKey", "Invalid topologyKey", "Invalid topologyKey"]),
        ({"topologyKey": "zone", "namespaces": ["A"]}, ["Invalid namespace"]),
        ({"topologyKey": "zone", "matchLabelKeys": ["a"]}, ["Forbidden matchLabelKeys"]),
        (
            {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]},
            ["Invalid matchLabelKeys[0]"],
        ),
    ],
)
def test_terms_of_pod_affinity(term: dict[str, Any], expected: list[str]) -> None:
    causes = validate_affinity({"podAntiAffinity": {REQUIRED: [term]}}, "a")

    assert [text.replace(f"a.podAntiAffinity.{REQUIRED}[0].", "") for text in found(causes)] == expected


def test_stored_selector_values_can_stay_invalid() -> None:
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}
    affinity = {"podAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": selector}]}}

    assert len(validate_affinity(affinity, "a")) == 1
    assert validate_affinity(affinity, "a", any_values=True) == []
