"""Tests for the validation of roles and bindings, and the defaults of bindings."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.defaulting.rbac import binding_defaults
from apiserver_stub.kinds.rbac import RoleStrategy
from apiserver_stub.validation import metadata
from apiserver_stub.validation.rbac import (
    validate_aggregation,
    validate_binding,
    validate_role_unchanged,
    validate_rules,
)
from nodeagent.base.release import Release

_GROUP = "rbac.authorization.k8s.io"
_ROLE = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": "view"}
_RESOURCES = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
_PATHS = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


@pytest.mark.parametrize(
    ("rule", "namespaced", "fields"),
    [
        (_RESOURCES, True, []),
        (_PATHS, False, []),
        (_PATHS, True, ["nonResourceURLs"]),
        (_PATHS | {"resourceNames": ["web"]}, True, ["nonResourceURLs", "nonResourceURLs"]),
        ({}, False, ["verbs", "apiGroups", "resources"]),
    ],
)
def test_rule_of_a_role_is_validated(rule: Any, namespaced: bool, fields: list[str]) -> None:
    causes = validate_rules({"rules": [rule]}, namespaced=namespaced)
    assert [cause.field for cause in causes] == [f"rules[0].{field}" for field in fields]


@pytest.mark.parametrize(
    ("selectors", "fields"),
    [
        ([{"matchLabels": {"a": "b"}}], []),
        ([{}], []),
        ([], [""]),
        ([{"matchExpressions": [{"key": "a", "operator": "In"}]}], ["[0].matchExpressions[0].values", "[0]"]),
    ],
)
def test_invalid_selector_of_an_aggregation_is_named(selectors: list[Any], fields: list[str]) -> None:
    causes = validate_aggregation({"aggregationRule": {"clusterRoleSelectors": selectors}})
    assert [cause.field for cause in causes] == [f"aggregationRule.clusterRoleSelectors{field}" for field in fields]


@pytest.mark.parametrize(
    ("role", "namespaced", "fields"),
    [
        ({}, True, []),
        ({"kind": "Role"}, True, []),
        ({"kind": "Role"}, False, ["kind"]),
        ({"apiGroup": "", "name": ""}, True, ["apiGroup", "name"]),
        ({"name": "a/b"}, True, ["name"]),
    ],
)
def test_role_reference_is_validated(role: Any, namespaced: bool, fields: list[str]) -> None:
    causes = validate_binding({"roleRef": _ROLE | role}, namespaced=namespaced, rbac_group="rbac.authorization.k8s.io")
    assert [cause.field for cause in causes] == [f"roleRef.{field}" for field in fields]


@pytest.mark.parametrize(
    ("subject", "fields"),
    [
        ({"kind": "User", "name": "jane", "apiGroup": _GROUP}, []),
        ({"kind": "Group", "name": "dev"}, ["apiGroup"]),
        ({"kind": "ServiceAccount", "name": "app", "namespace": "a"}, []),
        ({"kind": "ServiceAccount", "name": "App", "apiGroup": _GROUP}, ["name", "apiGroup", "namespace"]),
        ({}, ["name", "kind"]),
    ],
)
def test_subject_of_a_cluster_binding_is_validated(subject: Any, fields: list[str]) -> None:
    causes = validate_binding(
        {"roleRef": _ROLE, "subjects": [subject]}, namespaced=False, rbac_group="rbac.authorization.k8s.io"
    )
    assert [cause.field for cause in causes] == [f"subjects[0].{field}" for field in fields]


def test_role_of_a_binding_is_immutable() -> None:
    assert validate_role_unchanged({"roleRef": _ROLE}, {"roleRef": dict(_ROLE)}) == []
    [cause] = validate_role_unchanged({"roleRef": _ROLE | {"name": "edit"}}, {"roleRef": _ROLE})
    assert cause.message == (
        f'Invalid value: rbac.RoleRef{{APIGroup:"{_GROUP}", Kind:"ClusterRole", Name:"edit"}}: cannot change roleRef'
    )


@pytest.mark.parametrize(("minor", "repetitions"), [(35, 2), (36, 1)])
def test_update_reports_errors_of_the_new_role_twice_before_1_36(minor: int, repetitions: int) -> None:
    role = {"metadata": {"name": "a"}, "rules": [{"nonResourceURLs": ["/"]}]}
    strategy = RoleStrategy(metadata.repetitions(Release(1, minor)), namespaced=False)

    causes = strategy.validate_update(role, role, "")

    assert [cause.field for cause in causes] == ["rules[0].verbs"] * repetitions


def test_groups_of_roles_and_users_have_a_default() -> None:
    binding: dict[str, Any] = {"roleRef": {"name": "a"}, "subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}
    binding_defaults("rbac.authorization.k8s.io").apply(binding)
    assert binding["roleRef"]["apiGroup"] == _GROUP
    assert binding["subjects"] == [{"kind": "User", "apiGroup": _GROUP}, {"kind": "ServiceAccount"}]
