"""Tests for the kinds of webhook configurations and admission policies."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.kinds import mutating_policies
from apiserver_stub.kinds.admission import resources
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import kind_settings


def of(kind: str, *arguments: str) -> list[Resource]:
    settings = kind_settings(parse(list(arguments)))
    return [item for item in mutating_policies.resources(settings) if item.kind == kind]


@pytest.mark.parametrize(("word", "policy"), [("Mutating", "Never"), ("Validating", None)])
def test_only_mutating_webhooks_are_reinvoked(word: str, policy: str | None) -> None:
    (found,) = (item for item in resources(kind_settings(parse([]))) if item.kind == f"{word}WebhookConfiguration")
    configuration: Any = {"metadata": {"name": "c"}, "webhooks": [{"name": "w"}]}

    found.strategy.default(configuration)

    assert configuration["webhooks"][0].get("reinvocationPolicy") == policy


@pytest.mark.parametrize(
    ("arguments", "is_served"),
    [
        (["--compatibility-version=1.36"], True),
        (["--compatibility-version=1.36", "--feature-gates=MutatingAdmissionPolicy=false"], False),
        (["--compatibility-version=1.33"], False),
    ],
)
def test_mutating_policies_follow_release_and_gate(arguments: list[str], *, is_served: bool) -> None:
    assert bool(of("MutatingAdmissionPolicy", *arguments)) is is_served


@pytest.mark.parametrize(
    ("spec", "cells"),
    [
        ({}, [0, "<unset>"]),
        ({"mutations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, [2, "v1/ConfigMap"]),
    ],
)
def test_columns_of_mutating_policies(spec: Any, cells: list[Any]) -> None:
    (found,) = of("MutatingAdmissionPolicy", "--compatibility-version=1.36")

    assert [column.cell({"metadata": {"name": "p"}, "spec": spec}) for column in found.columns[1:3]] == cells


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        (None, "<unset>"),
        ({"selector": {}}, "<unset>"),
        ({"name": "a"}, "*/a"),
        ({"name": "a", "namespace": "n"}, "n/a"),
    ],
)
def test_columns_of_bindings_of_mutating_policies(reference: Any, text: str) -> None:
    (found,) = of("MutatingAdmissionPolicyBinding", "--compatibility-version=1.36")
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference}}

    assert [column.cell(binding) for column in found.columns[1:3]] == ["p", text]
