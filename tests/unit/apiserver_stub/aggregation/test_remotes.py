"""Tests for the registry of aggregated group versions and the order of groups in discovery."""

from __future__ import annotations

from typing import Any

from apiserver_stub.aggregation.remotes import Remote, Remotes, merge, remote_of
from apiserver_stub.apimachinery.request import Query, parse_path
from nodeagent.base.identity import Identity


def remote(group: str, version: str, group_priority: int = 100, version_priority: int = 10) -> Remote:
    spec: dict[str, Any] = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority,
        "service": {"name": "s", "namespace": "n"},
    }
    found = remote_of({"metadata": {"name": f"{version}.{group}"}, "spec": spec}, Identity())
    assert found is not None
    return found


def test_api_service_with_a_service_is_remote_once_available() -> None:
    found = remote("demo.example.com", "v1")
    assert (found.port, found.server_name, found.path) == (443, "s.n.svc", "/apis/demo.example.com/v1")
    assert not found.available

    condition = {"type": "Available", "status": "True"}
    spec = {"group": "g", "version": "v1", "service": {"name": "s", "namespace": "n"}}
    reported = remote_of(
        {"metadata": {"name": "v1.g"}, "spec": spec, "status": {"conditions": [condition]}}, Identity()
    )
    assert reported is not None
    assert reported.available


def test_local_and_reserved_groups_are_never_remote() -> None:
    service = {"name": "s", "namespace": "n"}
    for spec in (
        {"group": "g", "version": "v1"},
        {"version": "v1", "service": service},
        {"group": "apiregistration.k8s.io", "version": "v1", "service": service},
        {"group": "authorization.k8s.io", "version": "v1", "service": service},
    ):
        assert remote_of({"metadata": {"name": "x"}, "spec": spec}, Identity()) is None


def test_requests_match_by_resource_and_by_openapi_path() -> None:
    found = remote("g", "v1")
    remotes = Remotes(Identity(), {("g", "v1"): found})

    for path in ("/apis/g/v1/things", "/apis/g/v1/namespaces/n/things/a", "/apis/g/v1", "/openapi/v3/apis/g/v1"):
        assert remotes.find(parse_path("GET", path, Query(""))) is found
    for path in ("/apis/g/v2/things", "/apis/g", "/apis", "/api/v1/pods", "/openapi/v3", "/healthz"):
        assert remotes.find(parse_path("GET", path, Query(""))) is None


def test_groups_and_versions_are_sorted_by_priority_then_maturity() -> None:
    local = [("apiregistration.k8s.io", "v1"), ("", "v1"), ("apps", "v1"), ("storage.k8s.io", "v1")]
    others = [
        remote("b.io", "v1beta1"),
        remote("b.io", "v2"),
        remote("b.io", "v10"),
        remote("b.io", "v1alpha1", version_priority=20),
        remote("a.io", "v1"),
        remote("first.io", "v1", 17_900),
    ]

    assert merge(local, {(item.group, item.version): item for item in others}, Identity()) == [
        *local[:2],
        ("first.io", "v1"),
        *local[2:],
        ("a.io", "v1"),
        ("b.io", "v1alpha1"),
        ("b.io", "v10"),
        ("b.io", "v2"),
        ("b.io", "v1beta1"),
    ]
    assert Remotes(Identity()).merged(local) is local
