"""Tests for garbage collection by owner references, and for objects that the server creates."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from .conftest import Api, Server

MERGE = "application/merge-patch+json"


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def make(api: Api, maps: str, name: str, *owners: dict[str, Any], **reference: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            **reference,
        }
        for owner in owners
    ]
    made: dict[str, Any] = api.ok("POST", maps, {"metadata": {"name": name, "ownerReferences": references}})
    return made


def gone(api: Api, path: str) -> bool:
    return api.call("GET", path)[0] == 404


def eventually(condition: Callable[[], bool], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.row("opt.enable-garbage-collector")
@pytest.mark.parametrize("policy", [None, "Background"])
def test_dependents_are_deleted_after_their_owner(api: Api, maps: str, policy: str | None) -> None:
    owner = make(api, maps, "owner")
    child = make(api, maps, "child", owner)
    make(api, maps, "grandchild", child)

    api.ok("DELETE", f"{maps}/owner", {"propagationPolicy": policy} if policy else None)

    assert gone(api, f"{maps}/owner")
    eventually(lambda: gone(api, f"{maps}/child") and gone(api, f"{maps}/grandchild"))


def test_foreground_deletion_waits_for_blocking_dependents(api: Api, maps: str) -> None:
    owner = make(api, maps, "owner")
    child = make(api, maps, "child", owner, blockOwnerDeletion=True)
    api.ok("PATCH", f"{maps}/child", {"metadata": {"finalizers": ["example.com/hold"]}}, content_type=MERGE)

    lingering = api.ok("DELETE", f"{maps}/owner", {"propagationPolicy": "Foreground"})

    assert lingering["metadata"]["finalizers"] == ["foregroundDeletion"]
    eventually(lambda: "deletionTimestamp" in api.ok("GET", f"{maps}/child")["metadata"])
    assert api.ok("GET", f"{maps}/owner")["metadata"]["uid"] == owner["metadata"]["uid"]
    api.ok("PATCH", f"{maps}/child", {"metadata": {"finalizers": None}}, content_type=MERGE)
    eventually(lambda: gone(api, f"{maps}/owner"))
    assert gone(api, f"{maps}/child")
    assert child["metadata"]["uid"]


def test_foreground_deletion_without_dependents_is_immediate(api: Api, maps: str) -> None:
    make(api, maps, "owner")
    api.ok("DELETE", f"{maps}/owner", {"propagationPolicy": "Foreground"})
    eventually(lambda: gone(api, f"{maps}/owner"))


@pytest.mark.parametrize("body", [{"propagationPolicy": "Orphan"}, {"orphanDependents": True}])
def test_orphaned_dependents_are_kept_without_the_owner(api: Api, maps: str, body: dict[str, Any]) -> None:
    owner = make(api, maps, "owner")
    make(api, maps, "child", owner)

    api.ok("DELETE", f"{maps}/owner", body)

    eventually(lambda: gone(api, f"{maps}/owner"))
    child = api.ok("GET", f"{maps}/child")
    assert "ownerReferences" not in child["metadata"]
    assert "deletionTimestamp" not in child["metadata"]


def test_dependent_with_a_remaining_owner_is_kept(api: Api, maps: str) -> None:
    first, second = make(api, maps, "first"), make(api, maps, "second")
    make(api, maps, "child", first, second)

    api.ok("DELETE", f"{maps}/first")

    def references() -> list[str]:
        return [item["name"] for item in api.ok("GET", f"{maps}/child")["metadata"]["ownerReferences"]]

    eventually(lambda: references() == ["second"])
    api.ok("DELETE", f"{maps}/second")
    eventually(lambda: gone(api, f"{maps}/child"))


def test_dependents_of_a_missing_or_replaced_owner_are_deleted(api: Api, maps: str) -> None:
    owner = make(api, maps, "owner")
    make(api, maps, "stranger", owner, uid="of-somebody-else")
    make(api, maps, "late", {"metadata": {"name": "never-was", "uid": "u"}})
    make(api, maps, "unknown", owner, kind="Nobody", apiVersion="example.com/v1")
    make(api, maps, "child", owner)

    eventually(lambda: gone(api, f"{maps}/stranger") and gone(api, f"{maps}/late"))
    api.ok("GET", f"{maps}/unknown")
    api.ok("GET", f"{maps}/child")


def test_kubectl_cascade_options(server: Server, api: Api, maps: str, namespace: str) -> None:
    owner = make(api, maps, "owner")
    make(api, maps, "child", owner, blockOwnerDeletion=True)
    server.kubectl("-n", namespace, "delete", "configmap", "owner", "--cascade=foreground")
    assert gone(api, f"{maps}/child")
    owner = make(api, maps, "owner")
    make(api, maps, "child", owner)
    server.kubectl("-n", namespace, "delete", "configmap", "owner", "--cascade=orphan")
    assert not gone(api, f"{maps}/child")


@pytest.mark.row("opt.enable-garbage-collector")
def test_dependents_orphaned_while_the_server_was_down_are_deleted(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--enable-garbage-collector=false")
    maps = "/api/v1/namespaces/default/configmaps"
    try:
        api = server.api()
        owner = make(api, maps, "owner")
        make(api, maps, "child", owner)
        deleted = api.ok("DELETE", f"{maps}/owner", {"propagationPolicy": "Foreground"})
        assert deleted["kind"] == "Status"
        time.sleep(0.3)
        assert not gone(api, f"{maps}/child")
        server.stop()
        server._arguments = ()
        server.start()
        eventually(lambda: gone(server.api(), f"{maps}/child"))
    finally:
        server.stop()


def test_cycle_of_blocking_owners_is_deleted(tmp_path: Path) -> None:
    server = Server(tmp_path / "data", "--enable-garbage-collector=false")
    maps = "/api/v1/namespaces/default/configmaps"

    def cycle(api: Api, *names: str) -> None:
        owners = [make(api, maps, name) for name in names]
        for index, owner in enumerate(owners):
            blocked = {"apiVersion": "v1", "kind": "ConfigMap", "blockOwnerDeletion": True}
            reference = {**blocked, "name": names[index - 1], "uid": owners[index - 1]["metadata"]["uid"]}
            path = f"{maps}/{owner['metadata']['name']}"
            api.ok("PATCH", path, {"metadata": {"ownerReferences": [reference]}}, content_type=MERGE)

    def hold(api: Api, *names: str) -> None:
        """Store the state of a server that was killed during such a deletion."""
        for name in names:
            deleting = {"metadata": {"finalizers": ["foregroundDeletion"]}}
            api.ok("PATCH", f"{maps}/{name}", deleting, content_type=MERGE)
            api.ok("DELETE", f"{maps}/{name}")

    try:
        cycle(server.api(), "stored-1", "stored-2")
        hold(server.api(), "stored-1", "stored-2")
        server.stop()
        server._arguments = ()
        server.start()
        api = server.api()
        eventually(lambda: gone(api, f"{maps}/stored-1") and gone(api, f"{maps}/stored-2"))

        cycle(api, "one", "two", "three")
        api.ok("DELETE", f"{maps}/one", {"propagationPolicy": "Foreground"})
        eventually(lambda: all(gone(api, f"{maps}/{name}") for name in ("one", "two", "three")))
    finally:
        assert server.stop() == 0


def test_kubernetes_service_and_endpoints_are_created(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    root, name = "/api/v1/namespaces/default", "kubernetes"
    try:
        for _ in range(2):
            port = urlsplit(server.ready["url"]).port
            service = server.api().ok("GET", f"{root}/services/kubernetes")
            assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
            (served,) = service["spec"]["ports"]
            assert (served["name"], served["port"], served["targetPort"]) == ("https", 443, port)
            (subset,) = server.api().ok("GET", f"{root}/endpoints/kubernetes")["subsets"]
            assert (subset["addresses"], subset["ports"][0]["port"]) == ([{"ip": "127.0.0.1"}], port)
            found = server.api().ok("GET", f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{name}")
            assert found["metadata"]["labels"] == {"kubernetes.io/service-name": name}
            assert found["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]
            assert found["ports"] == [{"name": "https", "port": port, "protocol": "TCP"}]
            server.stop()
            server.start()
    finally:
        server.stop()


def test_contents_of_namespaces_are_restored(api: Api, namespace: str) -> None:
    root = f"/api/v1/namespaces/{namespace}"
    authority = api.ok("GET", f"{root}/configmaps/kube-root-ca.crt")["data"]
    for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
        api.ok("DELETE", f"{root}/{path}")
        eventually(lambda path=path: not gone(api, f"{root}/{path}"))
    api.ok("PATCH", f"{root}/configmaps/kube-root-ca.crt", {"data": {"ca.crt": "other"}}, content_type=MERGE)
    eventually(lambda: api.ok("GET", f"{root}/configmaps/kube-root-ca.crt")["data"] == authority)


def test_date_of_legacy_token_tracking_is_published(api: Api) -> None:
    name = "kube-apiserver-legacy-service-account-token-tracking"
    path = f"/api/v1/namespaces/kube-system/configmaps/{name}"
    eventually(lambda: not gone(api, path))
    assert len(api.ok("GET", path)["data"]["since"]) == len("2006-01-02")
