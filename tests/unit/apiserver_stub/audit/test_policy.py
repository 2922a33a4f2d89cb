"""Tests for audit policies: the first matching rule applies; invalid files report all errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, User, parse_path
from apiserver_stub.audit.policy import AuditError, Level, Policy, load_policy, read_policy
from nodeagent.base.identity import Identity

ADMIN = User("admin", groups=("ops", "system:authenticated"))


def policy(*rules: dict[str, Any], **more: Any) -> Policy:
    return read_policy(
        json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules, **more}).encode(), Identity()
    )


def level(rule: dict[str, Any], path: str, method: str = "GET", user: User | None = ADMIN) -> Level:
    return policy({"level": "Metadata", **rule}).decide(user, parse_path(method, path, Query(""))).level


PODS = "/api/v1/namespaces/web/pods"


@pytest.mark.parametrize(
    ("rule", "path", "kept"),
    [
        ({}, "/healthz", True),
        ({"users": ["admin"]}, PODS, True),
        ({"users": ["eve"]}, PODS, False),
        ({"userGroups": ["dev", "ops"]}, PODS, True),
        ({"userGroups": ["dev"]}, PODS, False),
        ({"verbs": ["list"]}, PODS, True),
        ({"verbs": ["get"]}, PODS, False),
        ({"namespaces": ["web"]}, PODS, True),
        ({"namespaces": [""]}, PODS, False),
        ({"namespaces": [""]}, "/api/v1/nodes", True),
        ({"resources": [{"group": ""}]}, PODS, True),
        ({"resources": [{"group": "apps"}]}, PODS, False),
        ({"resources": [{"resources": ["pods"]}]}, f"{PODS}/a", True),
        ({"resources": [{"resources": ["pods"]}]}, f"{PODS}/a/log", False),
        ({"resources": [{"resources": ["pods/log"]}]}, f"{PODS}/a/log", True),
        ({"resources": [{"resources": ["pods/*"]}]}, f"{PODS}/a/log", True),
        ({"resources": [{"resources": ["*/log"]}]}, f"{PODS}/a/log", True),
        ({"resources": [{"resources": ["*/log"]}]}, f"{PODS}/a", False),
        ({"resources": [{"resources": ["*"]}]}, f"{PODS}/a/log", True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}, f"{PODS}/a", True),
        ({"resources": [{"resources": ["pods"], "resourceNames": ["a"]}]}, f"{PODS}/b", False),
        ({"resources": [{"group": ""}]}, "/healthz", False),
        ({"nonResourceURLs": ["/healthz"]}, "/healthz", True),
        ({"nonResourceURLs": ["/health*"]}, "/healthz", True),
        ({"nonResourceURLs": ["/livez"]}, "/healthz", False),
        ({"nonResourceURLs": ["/health"]}, "/healthz", False),
        ({"nonResourceURLs": ["/livez*"]}, "/healthz", False),
        ({"nonResourceURLs": ["*"]}, PODS, False),
    ],
)
def test_rule_matches_requests(rule: dict[str, Any], path: str, kept: bool) -> None:
    assert bool(level(rule, path)) is kept


def test_unauthenticated_user_matches_no_user_rule() -> None:
    assert level({"userGroups": ["ops"]}, PODS, user=None) == level({"users": ["admin"]}, PODS, user=None) == 0
    assert level({}, PODS, user=None) == Level.Metadata


def test_first_matching_rule_extends_global_settings() -> None:
    found = policy(
        {"level": "Request", "omitStages": ["Panic"], "omitManagedFields": False, "verbs": ["list"]},
        {"level": "None"},
        omitStages=["RequestReceived"],
        omitManagedFields=True,
    )

    decision = found.decide(ADMIN, parse_path("GET", PODS, Query("")))
    assert decision.level is Level.Request
    assert decision.omit_stages == {"Panic", "RequestReceived"}
    assert decision.omit_managed_fields is False
    assert found.decide(ADMIN, parse_path("POST", PODS, Query(""))).level is Level.None_


def test_invalid_policy_reports_every_error(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(
        """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [Foo]
rules:
- level: Foo
- nonResourceURLs: ["a", "/a*b"]
  level: None
  namespaces: [a]
- level: None
  resources: [{group: a.b/v1}, {resourceNames: [x]}]
"""
    )
    with pytest.raises(AuditError) as error:
        load_policy(file, Identity())

    text = str(error.value)
    assert text.startswith("loading audit policy file: [omitStages[0]: Invalid value: ")
    assert text.endswith(f"]: from file {file}")
    for part in (
        'omitStages[0]: Invalid value: "Foo": allowed stages are RequestReceived,ResponseStarted,',
        'rules[0].level: Unsupported value: "Foo": supported values: "None", "Metadata", "Request", "RequestResponse"',
        "non-resource URL rules must begin with a '/' character",
        "non-resource URL wildcards '*' must be the final character of the rule",
        "rules cannot apply to both regular resources and non-resource URLs",
        "a lowercase RFC 1123 subdomain",
        "using resourceNames requires at least one resource",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{apiVersion: audit.k8s.io/v1, kind: Policy}", "loaded illegal policy with 0 rules"),
        ("{apiVersion: audit.k8s.io/v1beta1, kind: Policy}", 'no kind "Policy" is registered for version'),
        ("{apiVersion: audit.k8s.io/v1, kind: Policy, rules: 3}", "failed decoding: .*rules"),
        ("[", "failed decoding"),
    ],
)
def test_file_of_another_kind_is_rejected(text: str, message: str) -> None:
    with pytest.raises(AuditError, match=message):
        read_policy(text.encode(), Identity())


def test_unknown_field_is_logged_and_ignored(caplog: pytest.LogCaptureFixture) -> None:
    policy({"level": "None", "user": ["a"]})

    assert 'unknown field "rules[0].user"' in caplog.text
