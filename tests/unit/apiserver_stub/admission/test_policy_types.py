"""Tests for the type checks of admission policies against the kinds that they match."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.policy_types import PolicyTypeChecker
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.kinds.registry import Registry
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from tests.unit.apiserver_stub.kinds.test_custom_resources import established

REGISTRY = build_registry(parse([]))
DEPLOYMENTS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


def warnings(*expressions: str, registry: Registry = REGISTRY, **spec: Any) -> list[tuple[str, str]]:
    """Return the paths and texts of the warnings for a policy for Deployments."""
    validations = [{"expression": text} for text in expressions]
    spec = {"matchConstraints": {"resourceRules": [DEPLOYMENTS]}, "validations": validations} | spec
    found = PolicyTypeChecker(registry, "k8s.io", 29).warnings({"metadata": {"name": "p"}, "spec": spec})
    return [(item["fieldRef"], item["warning"]) for item in found if item is not None]


def test_undefined_field_is_reported_with_its_position() -> None:
    assert warnings("object.replicas > 1") == [
        (
            "spec.validations[0].expression",
            "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
            " | object.replicas > 1\n"
            " | ......^",
        )
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas > 1",
        "object.spec.replicas > 1.5",
        "object.metadata.namespace == 'a' && object.metadata.name != ''",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('a') && has(c.resources.limits))",
        "object.spec.strategy.rollingUpdate.maxSurge == '25%' || object.spec.strategy.rollingUpdate.maxSurge == 1",
        "object.metadata.labels['a'] == 'b' && object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
        "oldObject == null || oldObject.spec == object.spec",
        "request.userInfo.username != 'a' && authorizer.group('').resource('pods').check('get').allowed()",
        "namespaceObject.metadata.labels['a'] == 'b'",
        "object.apiVersion == 'apps/v1' && object.kind == 'Deployment'",
    ],
)
def test_valid_expression_has_no_warning(expression: str) -> None:
    assert warnings(expression) == []


def test_types_of_fields_and_variables_are_checked() -> None:
    variables = [{"name": "count", "expression": "object.spec.replicas"}, {"name": "bad", "expression": "object.nope"}]

    ((field, text),) = warnings(
        "variables.count > 1", "variables.count.startsWith('1')", "variables.bad > 1", variables=variables
    )

    assert field == "spec.validations[1].expression"
    assert "<input>:1:27: found no matching overload for 'startsWith'" in text


def test_each_kind_and_message_is_checked() -> None:
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "resources": ["deployments", "daemonsets", "deployments/status"],
        },
        {"apiGroups": ["*"], "apiVersions": ["v1"], "resources": ["pods"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"]},
        {"apiGroups": ["*", ""], "apiVersions": ["v1"], "resources": ["configmaps"]},
        {"apiGroups": [""], "apiVersions": ["v1", "*"], "resources": ["configmaps"]},
    ]
    validations = [{"expression": "object.spec.replicas > 1", "messageExpression": "'n' + object.spec.nope"}]

    found = dict(warnings(matchConstraints={"resourceRules": rules}, validations=validations))

    expression, message = (found[f"spec.validations[0].{name}"] for name in ("expression", "messageExpression"))
    assert expression.startswith("apps/v1, Kind=DaemonSet: ERROR: <input>:1:12: undefined field 'replicas'")
    assert "Kind=Deployment" not in expression
    assert message.count("undefined field 'nope'") == 2


def test_custom_kinds_and_parameters_are_checked() -> None:
    custom = resources_of(established())
    registry = Registry([*REGISTRY, *custom])
    version, group = custom[0].version, custom[0].group
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [custom[0].plural]}

    found = warnings(
        "object.spec.size < params.data.size()",
        "object.spec.length < 1",
        "params.spec.size < 1",
        "object.metadata.labels['a'] == object.kind",
        registry=registry,
        matchConstraints={"resourceRules": [rule]},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )

    assert [(field, text.splitlines()[0].partition("ERROR")[2]) for field, text in found] == [
        ("spec.validations[1].expression", ": <input>:1:12: undefined field 'length'"),
        ("spec.validations[2].expression", ": <input>:1:7: undefined field 'spec'"),
    ]


def test_unknown_parameters_have_any_type() -> None:
    assert warnings("params.a.b == 1", paramKind={"apiVersion": "example.com/v1", "kind": "Nope"}) == []
