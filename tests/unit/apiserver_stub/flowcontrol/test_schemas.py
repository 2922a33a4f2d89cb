"""Tests for flow schemas: which requests they match, and how they distinguish flows."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.request import Query, RequestInfo, User, parse_path
from apiserver_stub.flowcontrol.schemas import FlowSchema, read_schema

ALICE = User("alice", groups=("team", "system:authenticated"))
ACCOUNT = User("system:serviceaccount:web:builder", groups=("system:serviceaccounts",))
ANY = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
ALL_USERS = {"kind": "Group", "group": {"name": "*"}}


def request(path: str, method: str = "GET") -> RequestInfo:
    return parse_path(method, path, Query(""))


def schema(rule: dict[str, Any], **spec: Any) -> FlowSchema:
    return read_schema("a", {"priorityLevelConfiguration": {"name": "level"}, "rules": [rule], **spec}, {})


@pytest.mark.parametrize(
    ("subject", "user", "matches"),
    [
        ({"kind": "User", "user": {"name": "alice"}}, ALICE, True),
        ({"kind": "User", "user": {"name": "alice"}}, ACCOUNT, False),
        ({"kind": "User", "user": {"name": "*"}}, ACCOUNT, True),
        ({"kind": "Group", "group": {"name": "team"}}, ALICE, True),
        ({"kind": "Group", "group": {"name": "team"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "web", "name": "builder"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "web", "name": "other"}}, ACCOUNT, False),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "web", "name": "*"}}, ACCOUNT, True),
        ({"kind": "ServiceAccount", "serviceAccount": {"namespace": "we", "name": "*"}}, ACCOUNT, False),
    ],
)
def test_subject_selects_users(subject: dict[str, Any], user: User, matches: bool) -> None:
    found = schema({"subjects": [subject], "resourceRules": [ANY]})

    assert found.matches(user, request("/api/v1/namespaces/web/pods")) is matches


@pytest.mark.parametrize(
    ("changes", "path", "matches"),
    [
        ({}, "/api/v1/namespaces/web/pods", True),
        ({}, "/api/v1/nodes", True),
        ({}, "/version", False),
        ({"clusterScope": False}, "/api/v1/nodes", False),
        ({"clusterScope": False}, "/api/v1/pods", False),
        ({"verbs": ["create"]}, "/api/v1/namespaces/web/pods", False),
        ({"verbs": ["list"]}, "/api/v1/namespaces/web/pods", True),
        ({"apiGroups": ["apps"]}, "/api/v1/namespaces/web/pods", False),
        ({"apiGroups": ["apps"]}, "/apis/apps/v1/namespaces/web/deployments", True),
        ({"resources": ["pods"]}, "/api/v1/namespaces/web/pods/a/status", False),
        ({"resources": ["pods/status"]}, "/api/v1/namespaces/web/pods/a/status", True),
        ({"namespaces": ["web"]}, "/api/v1/namespaces/web/pods", True),
        ({"namespaces": ["web"]}, "/api/v1/namespaces/db/pods", False),
        ({"namespaces": [], "clusterScope": True}, "/api/v1/namespaces/web/pods", False),
    ],
)
def test_resource_rule_selects_requests(changes: dict[str, Any], path: str, matches: bool) -> None:
    found = schema({"subjects": [ALL_USERS], "resourceRules": [{**ANY, **changes}]})

    assert found.matches(ALICE, request(path)) is matches


@pytest.mark.parametrize(
    ("url", "path", "matches"),
    [
        ("*", "/anything", True),
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/etcd", True),
        ("/healthz", "/healthzz", False),
        ("/debug/*", "/debug/pprof", True),
        ("/debug/*", "/debugger", False),
    ],
)
def test_path_rule_selects_requests(url: str, path: str, matches: bool) -> None:
    found = schema({"subjects": [ALL_USERS], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": [url]}]})

    assert found.matches(ALICE, request(path)) is matches
    assert not found.matches(ALICE, request(path, "POST"))
    assert not found.matches(ALICE, request("/api/v1/namespaces/web/pods"))


@pytest.mark.parametrize(
    ("method", "flow"), [(None, ""), ({"type": "ByUser"}, "alice"), ({"type": "ByNamespace"}, "web")]
)
def test_distinguisher_method_selects_the_flow(method: dict[str, Any] | None, flow: str) -> None:
    found = schema({"subjects": [ALL_USERS], "resourceRules": [ANY]}, distinguisherMethod=method)

    assert found.flow_of(ALICE, request("/api/v1/namespaces/web/pods")) == flow
