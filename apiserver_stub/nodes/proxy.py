"""``proxy`` of nodes and services, and what all proxies share: the path behind them."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Any

from aiohttp import web

from apiserver_stub.nodes.addressing import is_port, only_global, split_name
from apiserver_stub.nodes.agents import DEFAULT_PORT, Place
from apiserver_stub.nodes.relay import relay
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.objects import Object, decode, dig, key_of
from apiserver_stub.status import bad_request, not_found, unavailable
from nodeagent.base.tls import is_ip


async def proxy(stream: Stream, place: Place) -> web.StreamResponse:
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
        place = Place(place.host, int(port), stream.agents.plain_tls if scheme == "https" else None)
    await _check(place.host)
    return await proxy(stream, place)


async def proxy_service(stream: Stream) -> web.StreamResponse:
    """Pass the request on to one of the endpoints of a service."""
    scheme, name, port = split_name(stream.info.name, "service")
    key = key_of(stream.info.namespace, name)
    record = stream.store.collection("core/services").get(key)
    if record is None:
        raise not_found("", "services", name)
    service: Object = decode(record.data)
    ports = dig(service, ("spec", "ports")) or []
    wanted = _port_name(ports, port)
    if wanted is None:
        raise unavailable(f'no service port "{port}" found for service "{name}"')
    endpoints = stream.store.collection("core/endpoints").get(key)
    found = _endpoints(decode(endpoints.data) if endpoints is not None else {}, wanted)
    if not found:
        raise unavailable(f'no endpoints available for service "{stream.info.name}"')
    host, number = random.choice(found)  # noqa: S311 - any of them will do
    tls = stream.agents.plain_tls if scheme == "https" else None
    return await proxy(stream, Place(only_global(host), number, tls))


def _port_name(ports: list[Any], port: str) -> str | None:
    """Return the name of the service's port that *port* means: by name, by number, or the only one."""
    if not port:
        return ports[0].get("name") or "" if ports else None
    for item in ports:
        if item.get("name") == port or str(item.get("port")) == port:
            return item.get("name") or ""
    return None


def _endpoints(endpoints: Object, name: str) -> list[tuple[str, int]]:
    return [
        (address["ip"], port["port"])
        for subset in endpoints.get("subsets") or ()
        for port in subset.get("ports") or ()
        if (port.get("name") or "") == name
        for address in subset.get("addresses") or ()
    ]


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
