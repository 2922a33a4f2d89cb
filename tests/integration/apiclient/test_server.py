"""Tests for the API client with a real server, in both content types and after connection failures."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import uuid
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

import msgspec
import psutil
import pytest

from nodeagent.apiclient import Client, connect, dial
from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.http import DURATIONS, REQUESTS
from nodeagent.apiclient.route import route
from nodeagent.base.aio import SystemClock
from nodeagent.contracts.api import CONFIG_MAPS, LEASES, NODES, PODS, SERVICE_ACCOUNTS, PatchType, WatchType
from nodeagent.errors import ApiConflict, ApiError, ApiNotFound, ApiUnavailable
from nodeagent.model.pod import Pod
from nodeagent.testing.context import make_config
from tests.descriptors import open_descriptors
from tests.integration.programs import ApiServer


def unique(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "busybox"}], **spec}}


async def test_object_is_created_updated_and_deleted(client: Client) -> None:
    name = unique("web")
    created = await client.create(PODS, pod(name, nodeName="nowhere"), "default")
    with pytest.raises(ApiConflict) as twice:
        await client.create(PODS, pod(name), "default")
    found = await client.get(PODS, name, "default", into=Pod)
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    patched = await client.patch(PODS, name, status, "default", subresource="status")
    labels = {"metadata": {"labels": {"a": "b"}}}
    labeled = await client.patch(PODS, name, labels, "default", patch_type=PatchType.MERGE)
    with pytest.raises(ApiConflict):
        await client.delete(PODS, name, "default", grace_seconds=0, uid="another")
    await client.delete(PODS, name, "default", grace_seconds=0, uid=found.uid)
    with pytest.raises(ApiNotFound):
        await client.get(PODS, name, "default", into=Pod)

    assert twice.value.reason == "AlreadyExists"
    assert found.uid == created["metadata"]["uid"]
    assert found.metadata.creation_timestamp is not None
    assert found.spec.containers[0].image == "busybox"
    assert patched["status"]["phase"] == "Running"
    assert labeled["metadata"]["labels"]["a"] == "b"


async def test_stale_update_is_a_conflict(client: Client) -> None:
    name = unique("map")
    first = await client.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": "1"}}, "default")
    second = await client.update(CONFIG_MAPS, name, {**first, "data": {"k": "2"}}, "default")
    with pytest.raises(ApiConflict) as stale:
        await client.update(CONFIG_MAPS, name, {**first, "data": {"k": "3"}}, "default")

    assert second["data"] == {"k": "2"}
    assert stale.value.reason == "Conflict"


async def test_list_with_selectors(client: Client) -> None:
    node = unique("n")
    for number in range(3):
        await client.create(PODS, pod(f"{node}-{number}", nodeName=node), "default")

    listing = await client.list(PODS, into=Pod, field_selector=f"spec.nodeName={node}")
    plain = await client.list(PODS, into=dict, field_selector=f"spec.nodeName={node}")

    assert sorted(item.name for item in listing.items) == [f"{node}-0", f"{node}-1", f"{node}-2"]
    assert {item["kind"] for item in plain.items} == {"Pod"}
    assert int(listing.resource_version) > 0


async def test_long_list_is_read_in_pages(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent.apiclient.client.PAGE_ITEMS", 2)
    mark = unique("page")
    for number in range(5):
        labels = {"page": mark}
        meta = {"name": f"{mark}-{number}", "labels": labels}
        await client.create(CONFIG_MAPS, {"metadata": meta, "data": {}}, "default")

    listing = await client.list(CONFIG_MAPS, "default", into=dict, label_selector=f"page={mark}")

    assert len(listing.items) == 5


async def test_watch_receives_changes(client: Client) -> None:
    node = unique("n")
    listing = await client.list(PODS, into=Pod, field_selector=f"spec.nodeName={node}")
    watch = client.watch(
        PODS, into=Pod, resource_version=listing.resource_version, field_selector=f"spec.nodeName={node}"
    )

    async def change() -> None:
        await client.create(PODS, pod(node, nodeName=node), "default")
        await client.create(PODS, pod(unique("other"), nodeName="elsewhere"), "default")
        await client.patch(PODS, node, {"metadata": {"labels": {"x": "y"}}}, "default")
        await client.delete(PODS, node, "default", grace_seconds=0)

    changing = asyncio.create_task(change())
    seen = []
    async with asyncio.timeout(10), aclosing(watch):  # type: ignore[type-var]
        async for event in watch:
            seen.append((event.type, event.object.name))
            if event.type is WatchType.DELETED:
                break
    await changing

    assert seen[0] == (WatchType.ADDED, node)
    assert seen[-1] == (WatchType.DELETED, node)
    assert {name for _, name in seen} == {node}


async def test_nodes_and_leases_keep_their_times(client: Client) -> None:
    name = unique("node")
    await client.create(NODES, {"metadata": {"name": name}})
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2024-01-02T03:04:05Z"}
    await client.patch(NODES, name, {"status": {"conditions": [condition]}}, subresource="status")
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2024-01-02T03:04:05.123456Z"}
    await client.create(LEASES, {"metadata": {"name": name}, "spec": spec}, "kube-node-lease")

    node = await client.get(NODES, name, into=dict, cached=True)
    lease = await client.get(LEASES, name, "kube-node-lease", into=dict)

    assert node["status"]["conditions"][0]["lastHeartbeatTime"] == "2024-01-02T03:04:05Z"
    assert lease["spec"]["renewTime"] == "2024-01-02T03:04:05.123456Z"


async def test_service_account_token_is_requested(client: Client) -> None:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"audiences": [], "expirationSeconds": 3600},
    }

    response = await client.create(SERVICE_ACCOUNTS, request, "default", subresource="token", name="default")

    assert response["status"]["token"].count(".") == 2


async def test_client_recovers_after_a_server_restart(client: Client, server: ApiServer) -> None:
    name = unique("map")
    await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")
    listing = await client.list(CONFIG_MAPS, "default", into=dict)
    watch = client.watch(CONFIG_MAPS, "default", into=dict, resource_version=listing.resource_version)
    following = asyncio.create_task(anext(watch))  # type: ignore[arg-type]
    await asyncio.sleep(0.3)

    await asyncio.to_thread(server.kill)
    with pytest.raises((ApiUnavailable, StopAsyncIteration)):
        await following
    with pytest.raises(ApiUnavailable):
        await client.get(CONFIG_MAPS, name, "default", into=dict)
    await asyncio.to_thread(server.start)
    found = await client.get(CONFIG_MAPS, name, "default", into=dict)

    assert found["metadata"]["name"] == name


# --- authentication ---------------------------------------------------------------------------------------------


def changed_kubeconfig(server: ApiServer, directory: Path, **user: str) -> Path:
    import yaml

    document = yaml.safe_load(Path(server.facts["kubeconfig"]).read_text())
    for entry in document["users"]:
        entry["user"] = dict(user)
    for entry in document["clusters"]:
        if "certificate-authority" in entry["cluster"]:
            entry["cluster"]["certificate-authority"] = server.facts["caFile"]
    path = directory / "kubeconfig"
    path.write_bytes(msgspec.json.encode(document))
    return path


async def test_invalid_token_is_rejected(server: ApiServer, tmp_path: Path) -> None:
    client = connect(changed_kubeconfig(server, tmp_path, token="wrong"), make_config(), SystemClock())

    with pytest.raises(ApiError) as raised:
        await client.get(NODES, "node-1", into=dict)
    await client.close()

    assert raised.value.code == 401


async def test_replaced_token_file_is_reloaded(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent.apiclient.credentials.CREDENTIALS_SECONDS", 0)
    (tmp_path / "token").write_text("wrong")
    client = connect(changed_kubeconfig(server, tmp_path, tokenFile="token"), make_config(), SystemClock())
    with pytest.raises(ApiError):
        await client.list(NODES, into=dict)
    (tmp_path / "token").write_text(server.facts["token"])

    listing = await client.list(NODES, into=dict)
    await client.close()

    assert int(listing.resource_version) > 0


async def test_server_with_an_untrusted_certificate_is_rejected(server: ApiServer, tmp_path: Path) -> None:
    from nodeagent.apiclient.connect import for_config
    from nodeagent.apiclient.http import HttpTransport
    from nodeagent.base import key_material, kubeconfig, tls

    unrelated_ca = key_material.Material(data=tls.generate_ca("stranger").certificate)
    found = replace(kubeconfig.load(Path(server.facts["kubeconfig"])), certificate_authority=unrelated_ca)
    client = for_config(HttpTransport(found, SystemClock()), make_config(), SystemClock())

    with pytest.raises(ApiUnavailable, match=r"(?i)certificate"):
        await client.get(NODES, "node-1", into=dict)
    await client.close()


async def cancel_after(steps: int, dialing: Coroutine[Any, Any, Connection]) -> None:
    """Cancel *dialing* after *steps* iterations of the event loop; a connection is closed."""
    task = asyncio.create_task(dialing)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    for connection in await asyncio.gather(task, return_exceptions=True):
        if isinstance(connection, Connection):
            connection.abort()
    for _ in range(3):
        await asyncio.sleep(0)


async def test_cancelled_connection_is_closed(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect_now(url: SplitResult) -> socket.socket:
        connection = socket.create_connection((url.hostname, url.port))
        connection.setblocking(False)
        return connection

    monkeypatch.setattr(dial, "_connect", connect_now)
    way, context = route(server.facts["url"], ""), ssl.create_default_context(cafile=server.facts["caFile"])
    before = open_descriptors()
    for steps in range(12):
        await cancel_after(steps, dial.dial(way, context, ""))
        gc.collect()  # Reports connections that were not closed.

    assert open_descriptors() <= before


async def test_request_to_a_silent_server_times_out(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()
        await asyncio.sleep(0)
        closed.set()

    silent = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    path = tmp_path / "kubeconfig"
    document = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x"}}],
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
    }
    path.write_bytes(msgspec.json.encode(document))
    client = connect(path, make_config(), SystemClock()).with_rate(0, 0, deadline_seconds=0.2)

    with pytest.raises(ApiUnavailable, match="no response within"):
        await client.get(NODES, "node-1", into=dict)
    await client.close()
    async with asyncio.timeout(10):
        await closed.wait()
    silent.close()
    await silent.wait_closed()


async def test_requests_are_counted_by_code_method_and_host(client: Client, server: ApiServer) -> None:
    host = server.facts["url"].partition("://")[2]
    before = [REQUESTS.value(code, "GET", host) for code in ("200", "404")]

    await client.list(NODES, into=dict)
    with pytest.raises(ApiNotFound):
        await client.get(NODES, unique("nobody"), into=dict)

    assert [REQUESTS.value(code, "GET", host) for code in ("200", "404")] == [before[0] + 1, before[1] + 1]
    assert DURATIONS.count("GET", host) >= 2


@pytest.mark.parametrize(("disabled", "connections_range"), [("", (2, 5)), ("1", (121, 200))])
async def test_requests_are_sent_beside_many_watches(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, disabled: str, connections_range: tuple[int, int]
) -> None:
    monkeypatch.setenv("DISABLE_HTTP2", disabled)
    config = make_config(platform_api_qps=1000, platform_api_burst=1000)
    client = connect(Path(server.facts["kubeconfig"]), config, SystemClock())
    opened = asyncio.Semaphore(0)

    async def watch() -> None:
        async with aclosing(client.watch(CONFIG_MAPS, "default", into=dict, resource_version="0")) as events:
            await anext(events)
            opened.release()
            async for _ in events:
                pass

    watches = [asyncio.create_task(watch()) for _ in range(120)]
    try:
        async with asyncio.timeout(60):
            for _ in watches:
                await opened.acquire()
            created = await client.create(CONFIG_MAPS, {"metadata": {"name": unique("many")}}, "default")
        port = int(server.facts["url"].rpartition(":")[2])
        connections = [each for each in psutil.Process().net_connections() if each.raddr and each.raddr[1] == port]
    finally:
        for task in watches:
            task.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        await client.close()

    assert created["metadata"]["uid"]
    assert len(connections) in range(*connections_range)
