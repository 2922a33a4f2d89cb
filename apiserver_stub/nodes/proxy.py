"""``proxy`` of nodes and services, and what all proxies share: the path behind them."""

from __future__ import annotations

import asyncio
import random
import socket

from aiohttp import web

from apiserver_stub.apimachinery.objects import Object, decode, dig, key_of
from apiserver_stub.apimachinery.status import bad_request, not_found, unavailable
from apiserver_stub.nodes.addressing import is_port, only_global, split_name
from apiserver_stub.nodes.agents import DEFAULT_PORT, Endpoint
from apiserver_stub.nodes.reverse_proxy import relay
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.storage import Store
from nodeagent.base.names import is_ip


async def proxy(stream: Stream, place: Endpoint) -> web.StreamResponse:
    """Pass the request on to *place*, at the path behind ``proxy``."""
    path, mark, query = stream.http.path_qs.partition("?")
    parts = path.split("/")
    # The names of resources stand at fixed places, so that one called "proxy" is not taken for the subresource.
    start = 4 + 2 * bool(stream.info.namespace)
    prefix, rest = "/".join(parts[: start + 2]), "/".join(parts[start + 2 :])
    if len(parts) == start + 2 and stream.http.method in ("GET", "HEAD"):
        return web.Response(status=301, headers={"Location": f"{prefix}/{mark}{query}"})
    return await relay(stream, place, f"/{rest}{mark}{query}", prefix)


async def proxy_node(stream: Stream) -> web.StreamResponse:
    """Pass the request on to a node: its agent, or another port of it."""
    scheme, name, port = split_name(stream.info.name, "node")
    place = await stream.agents.place_of(name)
    agent_port = dig(stream.agents.node(name), ("status", "daemonEndpoints", "kubeletEndpoint", "Port")) or DEFAULT_PORT
    if port and not is_port(port):
        raise bad_request(f'invalid node request "{stream.info.name}"')
    if port and int(port) != agent_port:
        place = Endpoint(place.host, int(port), stream.agents.plain_tls if scheme == "https" else None)
    await _check(place.host)
    return await proxy(stream, place)


async def proxy_service(stream: Stream) -> web.StreamResponse:
    """Pass the request on to one of the pods behind a service."""
    scheme, name, port = split_name(stream.info.name, "service")
    key = key_of(stream.info.namespace, name)
    if port.isascii() and port.isdigit():
        port = _port_name(stream.store, key, name, int(port))
    record = stream.store.collection("core/endpoints").get(key)
    if record is None:
        raise not_found("", "endpoints", name)
    endpoints: Object = decode(record.data)
    found = _endpoints(stream.store, endpoints, stream.info.namespace, port)
    if not found:
        raise unavailable(f'no endpoints available for service "{stream.info.name}"')
    host, number = random.choice(found)  # noqa: S311 - any of them will do
    tls = stream.agents.plain_tls if scheme == "https" else None
    return await proxy(stream, Endpoint(only_global(host), number, tls))


def _port_name(store: Store, key: str, name: str, number: int) -> str:
    """Return what the service calls its port *number*.

    :raises ApiError: 404 or 503, there is no such service or port.
    """
    record = store.collection("core/services").get(key)
    if record is None:
        raise not_found("", "services", name)
    for item in dig(decode(record.data), ("spec", "ports")) or ():
        if item.get("port") == number:
            return item.get("name") or ""
    raise unavailable(f'no service port {number} found for service "{name}"')


def _endpoints(store: Store, endpoints: Object, namespace: str, name: str) -> list[tuple[str, int]]:
    """Return the places that serve the port *name*: those of pods alone, as anybody may write endpoints."""
    return [
        (address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if (port.get("name") or "") == name
        for address in subset.get("addresses") or ()
        if _is_of_a_pod(store, address, namespace)
    ]


def _is_of_a_pod(store: Store, address: Object, namespace: str) -> bool:
    target = address.get("targetRef") or {}
    if target.get("namespace") != namespace:
        return False
    record = store.collection("core/pods").get(key_of(namespace, target.get("name") or ""))
    status = (decode(record.data).get("status") if record is not None else None) or {}
    return any(item.get("ip") == address.get("ip") for item in status.get("podIPs") or ())


async def _check(host: str) -> None:
    """Refuse a node whose name or address leads back to this machine."""
    if is_ip(host):
        only_global(host)
        return
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return  # who connects will say so, or a proxy knows the name
    for answer in found:
        only_global(str(answer[4][0]).partition("%")[0])
