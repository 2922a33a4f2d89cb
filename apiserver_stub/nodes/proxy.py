"""``proxy`` subresource of nodes and services, and the path rules common to all proxies."""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import replace

from apiserver_stub.apimachinery.objects import Object, decode, dig, key_of
from apiserver_stub.apimachinery.status import bad_request, not_found, unavailable
from apiserver_stub.nodes.addressing import is_port, only_global, split_name
from apiserver_stub.nodes.agents import DEFAULT_PORT, Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.reverse_proxy import relay
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.storage import Store
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.names import is_ip


async def proxy(stream: Stream, endpoint: Endpoint) -> Rendered | None:
    """Proxy the request to *endpoint*, with the path after ``proxy``."""
    path, mark, query = stream.http.target.partition("?")
    parts = path.split("/")
    # By position, so that an object named "proxy" is not mistaken for the subresource.
    start = 4 + 2 * bool(stream.info.namespace)
    prefix, rest = "/".join(parts[: start + 2]), "/".join(parts[start + 2 :])
    if len(parts) == start + 2 and stream.http.method in ("GET", "HEAD"):
        return Rendered(301, "", [], {"Location": f"{prefix}/{mark}{query}"})
    return await relay(stream, endpoint, f"/{rest}{mark}{query}", prefix)


async def proxy_node(stream: Stream) -> Rendered | None:
    """Proxy the request to a node: to its agent, or to another port."""
    scheme, name, port = split_name(stream.info.name, "node")
    endpoint = await stream.agents.endpoint_of(name)
    agent_port = dig(stream.agents.node(name), ("status", "daemonEndpoints", "kubeletEndpoint", "Port")) or DEFAULT_PORT
    if port and not is_port(port):
        raise bad_request(f'invalid node request "{stream.info.name}"')
    if port and int(port) != agent_port:
        endpoint = Endpoint(endpoint.host, int(port), stream.agents.plain_tls if scheme == "https" else None)
    return await proxy(stream, await _checked(endpoint, by_name=stream.agents.connects_by_name))


async def proxy_service(stream: Stream) -> Rendered | None:
    """Proxy the request to one of the pods of a service."""
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
    host, number = random.choice(found)  # noqa: S311 - load balancing
    tls = stream.agents.plain_tls if scheme == "https" else None
    return await proxy(stream, Endpoint(only_global(host), number, tls))


def _port_name(store: Store, key: str, name: str, number: int) -> str:
    """Return the name of the service port *number*.

    :raises ApiError: 404, the service does not exist; 503, it has no such port.
    """
    record = store.collection("core/services").get(key)
    if record is None:
        raise not_found("", "services", name)
    for item in dig(decode(record.data), ("spec", "ports")) or ():
        if item.get("port") == number:
            return item.get("name") or ""
    raise unavailable(f'no service port {number} found for service "{name}"')


def _endpoints(store: Store, endpoints: Object, namespace: str, name: str) -> list[tuple[str, int]]:
    """Return the addresses of the port *name*: only those of pods, since users can write Endpoints."""
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


async def _checked(endpoint: Endpoint, *, by_name: bool) -> Endpoint:
    """Return *endpoint* with the address to connect to, unless it belongs to this host.

    The name is resolved only once: a second query could return another address.

    :param by_name: an egress proxy resolves the name.
    :raises ApiError: 400, the address is not allowed; 503, the name cannot be resolved.
    """
    if is_ip(endpoint.host):
        only_global(endpoint.host)
        return endpoint
    try:
        resolved = await asyncio.get_running_loop().getaddrinfo(endpoint.host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if by_name:
            return endpoint
        raise Unreachable(f"dial tcp: lookup {endpoint.host}: {error}") from error
    addresses = [only_global(str(item[4][0]).partition("%")[0]) for item in resolved]
    if by_name:
        return endpoint
    return replace(endpoint, host=addresses[0], server_name=endpoint.server_name or endpoint.host)
