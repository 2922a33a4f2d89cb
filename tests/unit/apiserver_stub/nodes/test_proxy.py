"""Tests for the proxies of nodes and services: addresses that they connect to, ports and paths."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes import proxy
from apiserver_stub.nodes.agents import Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.proxy import _checked

from .backend import Backend, node, reply, serving, store_of, stream_to


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Return the addresses of each query, by name."""
    known: dict[str, list[list[str]]] = {}

    async def getaddrinfo(host: str, port: object, **_options: object) -> list[tuple[object, ...]]:
        if not known.get(host):
            raise socket.gaierror("no such host")
        return [(0, 0, 0, "", (address, 0)) for address in known[host].pop(0)]

    loop = SimpleNamespace(getaddrinfo=getaddrinfo)
    monkeypatch.setattr(proxy, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    return known


async def test_address_that_was_checked_is_the_one_to_connect_to(names: dict[str, list[list[str]]]) -> None:
    names["node"] = [["192.0.2.7"], ["127.0.0.1"]]  # The second query returns another address.

    found = await _checked(Endpoint("node", 10250), by_name=False)

    assert (found.host, found.port, found.server_name) == ("192.0.2.7", 10250, "node")
    assert len(names["node"]) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "0.0.0.0", "224.0.0.1"])
async def test_name_with_an_address_of_this_host_is_rejected(names: dict[str, list[list[str]]], address: str) -> None:
    names["node"] = [["192.0.2.7", address]]

    with pytest.raises(ApiError, match="address not allowed"):
        await _checked(Endpoint("node", 10250), by_name=False)


async def test_name_that_only_the_egress_proxy_knows_is_passed_on(names: dict[str, list[list[str]]]) -> None:
    endpoint = Endpoint("node", 10250)

    assert await _checked(endpoint, by_name=True) == endpoint
    with pytest.raises(Unreachable, match="lookup node"):
        await _checked(endpoint, by_name=False)


async def test_path_after_the_subresource_is_passed_on() -> None:
    service = "/api/v1/namespaces/proxy/services/proxy/proxy"
    for prefix, namespace, handler in (
        ("/api/v1/nodes/a/proxy", "", proxy.proxy_node),
        ("/api/v1/nodes/proxy/proxy", "", proxy.proxy_node),
        (service, "proxy", proxy.proxy_service),
    ):
        for path, expected in (("/", "/"), ("/x/proxy/y", "/x/proxy/y"), ("/x%2Fy?a=b%20c", "/x%2Fy?a=b%20c")):
            async with serving(reply("200 OK")) as backend:
                stream = stream_to(backend, store_of(**OBJECTS), prefix + path)
                assert stream.info.namespace == namespace
                assert await handler(stream) is None
            assert backend.request.target == expected, prefix + path


PORTS = [{"name": "http", "port": 8080}, {"port": 9090}]
OWN = {"metadata": {"name": "own", "namespace": "proxy"}, "status": {"podIPs": [{"ip": "192.0.2.8"}]}}
OBJECTS: dict[str, Any] = {
    "nodes": [node("a"), node("proxy")],
    "pods": [OWN, {"metadata": {"name": "new", "namespace": "proxy"}}],
    "services": [
        {
            "metadata": {"name": "proxy", "namespace": "proxy"},
            "spec": {"ports": [{"name": "http", "port": 80}, {"port": 90}]},
        },
        {"metadata": {"name": "external", "namespace": "proxy"}, "spec": {}},
    ],
    "endpoints": [
        {
            "metadata": {"name": "proxy", "namespace": "proxy"},
            "subsets": [
                {"ports": PORTS},
                {
                    "ports": PORTS,
                    "addresses": [
                        {"ip": "192.0.2.8", "targetRef": {"kind": "Pod", "name": "own", "namespace": "proxy"}},
                        {"ip": "192.0.2.9", "targetRef": {"kind": "Pod", "name": "own", "namespace": "proxy"}},
                        {"ip": "192.0.2.8", "targetRef": {"kind": "Pod", "name": "own", "namespace": "other"}},
                        {"ip": "192.0.2.8", "targetRef": {"kind": "Pod", "name": "missing", "namespace": "proxy"}},
                        {"ip": "192.0.2.8", "targetRef": {"kind": "Pod", "name": "new", "namespace": "proxy"}},
                        {"ip": "192.0.2.8", "targetRef": {"namespace": "proxy"}},
                        {"ip": "192.0.2.8"},
                    ],
                },
                {},
            ],
        },
        {"metadata": {"name": "empty", "namespace": "proxy"}},
        {
            "metadata": {"name": "foreign", "namespace": "proxy"},
            "subsets": [
                {
                    "ports": PORTS,
                    "addresses": [{"ip": "192.0.2.8", "targetRef": {"name": "own", "namespace": "other"}}],
                }
            ],
        },
    ],
}


async def dial_service(name: str) -> Backend:
    async with serving(reply("200 OK")) as backend:
        await proxy.proxy_service(
            stream_to(backend, store_of(**OBJECTS), f"/api/v1/namespaces/proxy/services/{name}/proxy/")
        )
    return backend


@pytest.mark.parametrize(
    ("name", "port", "encrypted"),
    [
        ("proxy", 9090, False),
        ("proxy:", 9090, False),
        ("proxy:http", 8080, False),
        ("proxy:80", 8080, False),
        ("proxy:90", 9090, False),
        ("https:proxy:http", 8080, True),
        ("http:proxy:90", 9090, False),
    ],
)
async def test_service_is_proxied_to_its_pod_at_the_port(name: str, port: int, encrypted: bool) -> None:
    (dialed,) = (await dial_service(name)).dialed

    assert (dialed.host, dialed.port, dialed.tls is not None) == ("192.0.2.8", port, encrypted)


async def test_only_addresses_of_own_pods_are_selected(monkeypatch: pytest.MonkeyPatch) -> None:
    offered: list[Any] = []

    def choose(found: list[Any]) -> Any:
        offered.extend(found)
        return found[0]

    monkeypatch.setattr(proxy.random, "choice", choose)
    await dial_service("proxy:http")

    assert offered == [("192.0.2.8", 8080)]


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("missing", 404, 'endpoints "missing" not found'),
        ("missing:80", 404, 'services "missing" not found'),
        ("proxy:81", 503, 'no service port 81 found for service "proxy"'),
        ("external:80", 503, 'no service port 80 found for service "external"'),
        ("proxy:ssh", 503, 'no endpoints available for service "proxy:ssh"'),
        ("empty", 503, 'no endpoints available for service "empty"'),
        ("foreign", 503, 'no endpoints available for service "foreign"'),
        ("x:proxy:1", 400, 'invalid service request "x:proxy:1"'),
    ],
)
async def test_service_without_the_port_is_unavailable(name: str, code: int, text: str) -> None:
    with pytest.raises(ApiError) as error:
        await dial_service(name)

    assert (error.value.code, error.value.message) == (code, text)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_path_without_a_slash_is_redirected(method: str) -> None:
    async with serving() as backend:
        stream = stream_to(backend, store_of(**OBJECTS), "/api/v1/nodes/a/proxy?x=1", method)
        response = await proxy.proxy_node(stream)

    assert response is not None
    assert (response.code, response.headers) == (301, {"Location": "/api/v1/nodes/a/proxy/?x=1"})
    assert backend.dialed == []


async def test_other_methods_are_not_redirected() -> None:
    async with serving(reply("200 OK")) as backend:
        await proxy.proxy_node(stream_to(backend, store_of(**OBJECTS), "/api/v1/nodes/a/proxy", "POST"))

    assert (backend.request.method, backend.request.target) == ("POST", "/")


@pytest.mark.parametrize(
    ("name", "port", "encrypted"),
    [
        ("a", 10250, True),
        ("http:a:", 10250, True),
        ("a:10250", 10250, True),
        ("http:a:10250", 10250, True),
        ("a:9100", 9100, False),
        ("http:a:9100", 9100, False),
        ("https:a:9100", 9100, True),
    ],
)
async def test_node_is_proxied_to_its_agent_or_another_port(name: str, port: int, encrypted: bool) -> None:
    for found in (node(), node(port=None)):
        async with serving(reply("200 OK")) as backend:
            await proxy.proxy_node(stream_to(backend, store_of(nodes=[found]), f"/api/v1/nodes/{name}/proxy/"))
        (dialed,) = backend.dialed
        assert (dialed.host, dialed.port, dialed.tls is not None) == ("192.0.2.1", port, encrypted)


@pytest.mark.parametrize(
    ("name", "status", "code", "text"),
    [
        ("a:0", {}, 400, 'invalid node request "a:0"'),
        ("a:ssh", {}, 400, 'invalid node request "a:ssh"'),
        ("b", {}, 404, 'nodes "b" not found'),
        ("a", {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}, 400, "address not allowed"),
        ("a", {"addresses": []}, 500, "no preferred addresses found; known addresses: []"),
    ],
)
async def test_invalid_proxy_request_for_a_node_is_rejected(name: str, status: Any, code: int, text: str) -> None:
    async with serving() as backend:
        with pytest.raises(ApiError) as error:
            await proxy.proxy_node(stream_to(backend, store_of(nodes=[node(**status)]), f"/api/v1/nodes/{name}/proxy/"))

    assert (error.value.code, backend.dialed) == (code, [])
    assert text in error.value.message


async def test_egress_proxy_resolves_the_name_of_a_node(names: dict[str, list[list[str]]]) -> None:
    names["node"] = [["192.0.2.7"]]

    assert await _checked(Endpoint("node", 1), by_name=True) == Endpoint("node", 1)
    names["node"] = [["127.0.0.1"]]
    with pytest.raises(ApiError, match="address not allowed"):
        await _checked(Endpoint("node", 1), by_name=True)
    assert await _checked(Endpoint("192.0.2.1", 1), by_name=False) == Endpoint("192.0.2.1", 1)
