"""Tests for service allocations of servers that share a store: uniqueness and release."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apiserver_stub.kinds.range_allocation import numbers_of
from nodeagent.base import apiproto

from .etcd import Etcd, running_etcd, serving
from .test_limits import Client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMESPACES = "/api/v1/namespaces"
SERVICES = f"{NAMESPACES}/default/services"
RANGES = ("--service-cluster-ip-range=10.96.0.0/24,fd00:96::/112", "--service-node-port-range=31000-31199")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def etcd(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Etcd]:
    async with running_etcd(tmp_path_factory.mktemp("etcd")) as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Client, Client]]:
    """Two servers with the same etcd cluster."""
    data, options = tmp_path_factory.mktemp("servers"), (f"--store-servers={etcd.url}", *RANGES)
    async with serving(data / "a", *options) as one, serving(data / "b", *options) as other:
        yield one, other


def new(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}], **spec}}


async def call(client: Client, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
    code, _, result = await client(method, path, json=body, **more)
    return code, json.loads(result)


async def ok(client: Client, method: str, path: str, body: Any = None) -> Any:
    code, result = await call(client, method, path, body)
    assert code < 300, result
    return result


async def taken(etcd: Etcd) -> dict[str, list[int]]:
    """Return the stored allocations; number 1 is the address of the ``kubernetes`` Service."""
    found = {}
    for key, first in (("serviceips", 1), ("secondaryserviceips", 1), ("servicenodeports", 31000)):
        stored = (await etcd.stored(f"/registry/ranges/{key}"))[f"/registry/ranges/{key}"]
        obj = apiproto.decode(stored.value)
        found[key] = numbers_of(first, int.from_bytes(base64.b64decode(obj["data"]), "big"))
    return found


@pytest.mark.row("opt.store-servers", "opt.service-cluster-ip-range", "opt.service-node-port-range")
async def test_concurrent_servers_never_allocate_a_value_twice(etcd: Etcd, servers: tuple[Client, Client]) -> None:
    before = await taken(etcd)
    names = [f"s{number}" for number in range(100)]

    created = await asyncio.gather(
        *(
            ok(servers[number % 2], "POST", SERVICES, new(name, ipFamilyPolicy="RequireDualStack"))
            for number, name in enumerate(names)
        )
    )
    addresses = [address for service in created for address in service["spec"]["clusterIPs"]]
    ports = [service["spec"]["ports"][0]["nodePort"] for service in created]
    assert (len(set(addresses)), len(set(ports))) == (200, 100)
    during = await taken(etcd)
    assert [len(during[key]) - len(before[key]) for key in before] == [100, 100, 100]

    code, rejection = await call(servers[1], "POST", SERVICES, new("thief", clusterIP=addresses[0]))
    assert code == 422
    assert rejection["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": f'Invalid value: []string{{"{addresses[0]}"}}: failed to allocate IP {addresses[0]}: '
            "provided IP is already allocated",
            "field": "spec.clusterIPs",
        }
    ]
    await asyncio.gather(
        *(ok(servers[number // 2 % 2], "DELETE", f"{SERVICES}/{name}") for number, name in enumerate(names))
    )
    assert await taken(etcd) == before


async def test_failed_write_allocates_nothing(etcd: Etcd, servers: tuple[Client, Client]) -> None:
    one, other = servers
    await ok(one, "POST", SERVICES, new("there"))
    before = await taken(etcd)

    assert (await call(other, "POST", SERVICES, new("there")))[0] == 409
    assert (await call(other, "POST", SERVICES, new("wrong", ports=[{"port": 0}])))[0] == 422
    assert (await call(other, "POST", f"{SERVICES}?dryRun=All", new("dry")))[0] == 201
    assert (await call(other, "PUT", f"{SERVICES}/there?dryRun=All", new("there", ports=[{"port": 81}])))[0] == 200
    stale = new("there", ports=[{"port": 80, "nodePort": 31150}])
    stale["metadata"]["resourceVersion"] = "1"
    assert (await call(other, "PUT", f"{SERVICES}/there", stale))[0] == 409
    assert await taken(etcd) == before
    await ok(other, "DELETE", f"{SERVICES}/there")


async def test_released_values_are_available(etcd: Etcd, servers: tuple[Client, Client]) -> None:
    one, other = servers
    before = await taken(etcd)
    service = await ok(one, "POST", SERVICES, new("changing"))
    service["spec"] = {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}
    await ok(other, "PUT", f"{SERVICES}/changing", service)
    assert await taken(etcd) == before

    held = new("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await ok(one, "POST", SERVICES, held)
    await ok(one, "DELETE", f"{SERVICES}/held")
    assert await taken(etcd) != before
    patch = json.dumps({"metadata": {"finalizers": None}})
    headers = {"Content-Type": "application/merge-patch+json"}
    url, tls = f"{other.running.url}{SERVICES}/held", other._tls
    authorization = {"Authorization": f"Bearer {other.running.token}"}
    async with other._session.patch(url, data=patch, ssl=tls, headers=headers | authorization) as response:
        assert response.status == 200
    assert await taken(etcd) == before


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
async def test_garbage_collection_releases_allocations(etcd: Etcd, servers: tuple[Client, Client], policy: str) -> None:
    before = await taken(etcd)
    await ok(servers[0], "POST", SERVICES, new("collected"))
    await ok(servers[1], "DELETE", f"{SERVICES}/collected?propagationPolicy={policy}")
    async with asyncio.timeout(20):
        while await taken(etcd) != before:
            await asyncio.sleep(0.02)


async def test_namespace_deletion_releases_allocations(etcd: Etcd, servers: tuple[Client, Client]) -> None:
    one, other = servers
    before = await taken(etcd)
    await ok(one, "POST", NAMESPACES, {"metadata": {"name": "short"}})
    for number in range(3):
        await ok(one, "POST", f"{NAMESPACES}/short/services", new(f"s{number}"))
    await ok(other, "DELETE", f"{NAMESPACES}/short")
    async with asyncio.timeout(20):
        while await taken(etcd) != before:
            await asyncio.sleep(0.02)


async def test_startup_allocates_values_of_existing_services(etcd: Etcd, tmp_path: Path) -> None:
    options = (f"--store-servers={etcd.url}", "--store-prefix=/again", *RANGES)
    location = "/again/ranges/serviceips"
    async with serving(tmp_path, *options) as client:
        address = (await ok(client, "POST", SERVICES, new("a")))["spec"]["clusterIP"]
    async with etcd.client() as writer:
        stored = (await etcd.stored(location))[location]
        await writer.delete(location.encode(), expected=stored.mod_revision, kind="ranges")
    async with serving(tmp_path, *options) as client:
        code, rejection = await call(client, "POST", SERVICES, new("b", clusterIP=address))
        assert code == 422
        assert "provided IP is already allocated" in rejection["message"]
        assert (await call(client, "POST", SERVICES, new("c", clusterIP="10.96.0.1")))[0] == 422


async def test_unreadable_range_prevents_allocation(etcd: Etcd, tmp_path: Path) -> None:
    prefix = f"/{tmp_path.name}"
    options = (f"--store-servers={etcd.url}", f"--store-prefix={prefix}", *RANGES)
    async with etcd.client() as writer:
        await writer.put(f"{prefix}/ranges/serviceips".encode(), b"k8s\0torn", expected=0, lease=0, kind="ranges")
    async with serving(tmp_path, *options) as client:
        assert (await call(client, "POST", SERVICES, new("a")))[0] == 500
        assert (await call(client, "POST", SERVICES, new("b", clusterIP="None", type="ClusterIP")))[0] == 201


async def test_existing_kubernetes_service_is_not_modified(
    etcd: Etcd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = (f"--store-servers={etcd.url}", f"--store-prefix=/{tmp_path.name}")
    async with serving(tmp_path, *options, "--service-cluster-ip-range=10.96.0.0/24") as client:
        await ok(client, "DELETE", f"{SERVICES}/kubernetes")
        await ok(client, "POST", SERVICES, new("thief", clusterIP="10.96.0.1"))
    async with serving(tmp_path, *options, "--service-cluster-ip-range=10.96.0.0/24") as client:
        assert (await ok(client, "GET", f"{SERVICES}/thief"))["spec"]["clusterIP"] == "10.96.0.1"
        assert (await call(client, "GET", f"{SERVICES}/kubernetes"))[0] == 404
    assert "Failed to allocate address or port of kubernetes Service" in caplog.text
