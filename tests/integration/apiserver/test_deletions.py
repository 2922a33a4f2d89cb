"""Integration tests for deletions: finalizers, grace periods, propagation policies, and the returned versions."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Api

_FINALIZER = "example.com/hold"


def _ingress(name: str, **metadata: Any) -> dict[str, Any]:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {"metadata": {"name": name, **metadata}, "spec": {"defaultBackend": backend}}


def _pod(name: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1"}]
    return {"metadata": {"name": name}, "spec": {"nodeName": "n", "containers": containers}}


def test_deletion_of_an_object_with_finalizers_is_a_change(api: Api, namespace: str) -> None:
    path = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses"
    api.ok("POST", path, _ingress("a", finalizers=[_FINALIZER]))

    first = api.ok("DELETE", f"{path}/a")
    again = api.ok("DELETE", f"{path}/a")

    assert first["metadata"]["generation"] == 2
    assert first["metadata"]["deletionGracePeriodSeconds"] == 0
    assert again["metadata"] == first["metadata"]


def test_object_without_finalizers_is_returned_in_its_last_version(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, {"metadata": {"name": "a", "finalizers": [_FINALIZER]}})
    marked = api.ok("DELETE", f"{path}/a")

    merge = "application/merge-patch+json"
    last = api.ok("PATCH", f"{path}/a", {"metadata": {"finalizers": None}}, content_type=merge)

    assert last["metadata"]["resourceVersion"] == marked["metadata"]["resourceVersion"]
    assert api.call("GET", f"{path}/a")[0] == 404


def test_later_deletion_replaces_the_propagation_policy(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.ok("POST", path, {"metadata": {"name": "a", "finalizers": [_FINALIZER]}})

    def finalizers(policy: str) -> list[str]:
        body = {"propagationPolicy": policy, "dryRun": ["All"]}
        found: list[str] = api.ok("DELETE", f"{path}/a", body)["metadata"]["finalizers"]
        return found

    assert finalizers("Orphan") == [_FINALIZER, "orphan"]
    assert finalizers("Foreground") == [_FINALIZER, "foregroundDeletion"]
    assert finalizers("Background") == [_FINALIZER]


def test_grace_period_of_a_pod_can_only_be_shortened(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    api.ok("POST", path, _pod("a"))

    def grace(seconds: int) -> int:
        found: int = api.ok("DELETE", f"{path}/a", {"gracePeriodSeconds": seconds})["metadata"][
            "deletionGracePeriodSeconds"
        ]
        return found

    assert [grace(seconds) for seconds in (20, 60, 5, 5)] == [20, 20, 5, 5]
    assert grace(0) == 0
    assert api.call("GET", f"{path}/a")[0] == 404


@pytest.mark.parametrize(("limit", "selector", "continues"), [(2, "app=web", True), (3, "app=web", False)])
def test_full_page_continues_if_any_object_follows(
    api: Api, namespace: str, limit: int, selector: str, continues: bool
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        api.ok("POST", path, {"metadata": {"name": name, "labels": {"app": app}}})

    page = api.ok("GET", f"{path}?limit={limit}&labelSelector={selector}")

    assert [item["metadata"]["name"] for item in page["items"]] == ["a", "b"]
    assert ("continue" in page["metadata"]) == continues


def test_empty_field_selector_term_selects_everything(api: Api, namespace: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    api.ok("POST", path, {"metadata": {"name": "a"}})

    assert len(api.ok("GET", f"{path}?fieldSelector=%3D")["items"]) == 1


def test_empty_list_is_stored_as_null_and_owned_by_its_last_writer(api: Api, namespace: str) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
    for manager in ("one", "two"):
        role = api.ok("PUT", f"{path}/a?fieldManager={manager}", {"metadata": {"name": "a"}, "rules": []})

    assert role["rules"] is None
    assert [entry["manager"] for entry in role["metadata"]["managedFields"]] == ["two"]
