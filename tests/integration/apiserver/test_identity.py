"""Tests for API servers with different identities in one process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from nodeagent.base import apiproto, identity
from nodeagent.base.identity import Identity

from .conftest import Api
from .in_process import start

OTHER = Identity(
    api_domain="api.example",
    label_domain="label.example",
    media_domain="example",
    system_namespace="example-system",
    node_lease_namespace="example-leases",
)
FLAGS = [
    f"--{name.replace('_', '-')}={getattr(OTHER, name)}"
    for name in ("api_domain", "label_domain", "media_domain", "system_namespace", "node_lease_namespace")
]
POD = {"containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(autouse=True)
def _no_identity_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> NoReturn:
        raise AssertionError("the API server used the identity of the process")

    monkeypatch.setattr(identity, "current", fail)


@asynccontextmanager
async def servers(path: Path) -> AsyncIterator[list[tuple[Identity, Api]]]:
    """Yield two servers of this process, each as its identity and a client."""
    clients: list[tuple[Identity, Api]] = []
    async with AsyncExitStack() as stack:
        for names, flags in ((Identity(), []), (OTHER, FLAGS)):
            running = await start(path / names.api_domain, *flags)
            stack.push_async_callback(running.stop)
            api = Api(running.url, str(running.ca_file), running.token)
            stack.callback(api.close)
            clients.append((names, api))
        yield clients


async def call(api: Api, method: str, path: str, body: Any = None, **options: Any) -> Any:
    code, found = await asyncio.to_thread(api.call, method, path, body, **options)
    assert code in (200, 201), found
    return found


async def create(api: Api, path: str, api_version: str, kind: str, name: str, **fields: Any) -> Any:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
    return await call(api, "POST", path, body)


async def create_objects(names: Identity, api: Api) -> None:
    """Create an object of several kinds, and check the names that the server adds."""
    leases = f"/apis/{names.group('coordination')}/v1/namespaces/{names.node_lease_namespace}/leases"
    await create(api, leases, f"{names.group('coordination')}/v1", "Lease", "n1")
    events = f"/apis/{names.group('events')}/v1/namespaces/default/events"
    event = {
        "reason": "Tested",
        "action": "Test",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/test",
        "reportingInstance": "t",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
    }
    await create(api, events, f"{names.group('events')}/v1", "Event", "e", **event)
    node = await create(api, "/api/v1/nodes", "v1", "Node", "n1")
    assert [taint["key"] for taint in node["spec"]["taints"]] == [names.label("not-ready", "node")]
    namespace = await create(api, "/api/v1/namespaces", "v1", "Namespace", "mine")
    assert namespace["metadata"]["labels"] == {names.label("metadata.name"): "mine"}
    pod = await create(api, "/api/v1/namespaces/default/pods", "v1", "Pod", "p", spec=POD)
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == [f"/var/run/secrets/{names.label_domain}/serviceaccount"]
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = await create(api, claims, "v1", "PersistentVolumeClaim", "c", spec=spec)
    assert claim["metadata"]["finalizers"] == [names.label("pvc-protection")]
    rbac = names.group("rbac.authorization")
    binding = {"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}]}
    bound = await create(
        api, f"/apis/{rbac}/v1/clusterrolebindings", f"{rbac}/v1", "ClusterRoleBinding", "b", **binding
    )
    assert bound["roleRef"]["apiGroup"] == bound["subjects"][0]["apiGroup"] == rbac


async def test_two_servers_in_one_process_use_their_own_names(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        for names, api in both:
            groups = [group["name"] for group in (await call(api, "GET", "/apis"))["groups"]]
            assert {"policy", names.group("events"), names.group("coordination")} <= set(groups)
            assert all(group.endswith(f".{names.api_domain}") for group in groups if "." in group)
            await create_objects(names, api)
        for (names, api), (others, _) in zip(both, reversed(both), strict=True):
            texts = [json.dumps(await call(api, "GET", path)) for path in await _paths(api)]
            for domain in (others.api_domain, others.label_domain, others.system_namespace):
                found = [text[max(0, at - 80) : at + 40] for text in texts if (at := text.find(domain)) >= 0]
                assert not found, f"{domain} on the server with {names}"


async def test_two_servers_in_one_process_encode_protobuf_and_tables(tmp_path: Path) -> None:
    async with servers(tmp_path) as both:
        for names, api in both:
            group = names.group("coordination")
            path = f"/apis/{group}/v1/namespaces/default/leases"
            lease = {"apiVersion": f"{group}/v1", "kind": "Lease", "metadata": {"name": "l"}}
            encoded = apiproto.encode(lease, names.api_domain)
            code, headers, data = await asyncio.to_thread(
                api.raw,
                "POST",
                path,
                encoded,
                content_type=names.protobuf_media_type,
                headers={"Accept": names.protobuf_media_type},
            )
            assert (code, headers["content-type"]) == (201, names.protobuf_media_type), data
            created = apiproto.decode(data, names.api_domain)
            assert (created["apiVersion"], created["metadata"]["name"]) == (f"{group}/v1", "l")
            accept = f"application/json;as=Table;v=v1;g={names.group('meta')}"
            table = await call(api, "GET", path, headers={"Accept": accept})
            assert (table["kind"], table["apiVersion"]) == ("Table", f"{names.group('meta')}/v1")
            page = await call(api, "GET", "/api/v1/namespaces?limit=1")
            rest = await call(api, "GET", f"/api/v1/namespaces?limit=1&continue={page['metadata']['continue']}")
            assert rest["items"]
            patch = {**lease, "spec": {"holderIdentity": "h"}}
            applied = await call(
                api,
                "PATCH",
                f"{path}/l?fieldManager=t&force=true",
                patch,
                content_type="application/apply-patch+yaml",
            )
            assert {entry["apiVersion"] for entry in applied["metadata"]["managedFields"]} == {f"{group}/v1"}


async def _paths(api: Api) -> list[str]:
    """Return the paths of the discovery documents and of all collections."""
    discovery = ["/api", "/apis", "/api/v1"]
    for group in (await call(api, "GET", "/apis"))["groups"]:
        discovery += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    paths = [*discovery, "/openapi/v2"]
    for document in discovery[2:]:
        for resource in (await call(api, "GET", document))["resources"]:
            if "list" in resource["verbs"]:
                paths.append(f"{document}/{resource['name']}")
    return paths
