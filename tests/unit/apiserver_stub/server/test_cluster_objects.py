"""Tests for the objects that the server creates and maintains in the cluster."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.authn.certificates import CaBundle
from apiserver_stub.options import parse
from apiserver_stub.server.cluster_objects import ClusterObjects, create_cluster_objects
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.tls import generate_ca
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.server.tasks import RecordedTasks

CONFIG_MAP = "kube-system/extension-apiserver-authentication"


async def created(store: Memory, *arguments: str, bundle: CaBundle | None = None) -> ClusterObjects:
    options = parse(arguments)
    authentication: Any = SimpleNamespace(client_authorities=bundle, proxy_authorities=bundle)
    kept: Any = store
    return await create_cluster_objects(options, kept, build_registry(options), authentication, "CA")


async def test_system_objects_and_roles_are_created_and_maintained() -> None:
    store, tasks = Memory(), RecordedTasks()

    (await created(store)).start(tasks)  # type: ignore[arg-type]

    assert store.read("core/namespaces", "kube-system") is not None
    assert store.read("rbac.authorization.k8s.io/clusterroles", "cluster-admin") is not None
    assert store.read("apiregistration.k8s.io/apiservices", "v1.apps") is not None
    assert store.read("core/configmaps", CONFIG_MAP) is None
    assert tasks.names == [
        "authentication-config-map",
        "system-objects",
        "legacy-token-tracking",
        "api-services",
        "service-ranges",
    ]


@pytest.mark.parametrize(
    ("manages", "creates", "expected"), [(True, True, True), (True, False, False), (False, True, False)]
)
async def test_default_storage_class_needs_the_volume_controllers(manages: bool, creates: bool, expected: bool) -> None:
    store = Memory()

    await created(
        store, f"--manage-volumes={str(manages).lower()}", f"--local-path-storage-class={str(creates).lower()}"
    )

    assert (store.read("storage.k8s.io/storageclasses", "local-path") is not None) is expected


@pytest.mark.parametrize(("enabled", "uids"), [("true", '["X-Remote-Uid"]'), ("false", None)])
async def test_names_of_headers_are_published(tmp_path: Path, enabled: str, uids: str | None) -> None:
    (tmp_path / "ca").write_bytes(generate_ca("x").certificate)
    bundle, store = CaBundle(tmp_path / "ca", "x"), Memory()
    uid_headers = ["--requestheader-uid-headers=X-Remote-Uid"] if uids else []

    await created(
        store,
        "--compatibility-version=1.32",
        f"--feature-gates=RemoteRequestHeaderUID={enabled}",
        "--requestheader-username-headers=X-Remote-User",
        *uid_headers,
        bundle=bundle,
    )

    data = store.read("core/configmaps", CONFIG_MAP)["data"]
    assert data["client-ca-file"] == bundle.pem
    assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]
    assert data.get("requestheader-uid-headers") == uids
