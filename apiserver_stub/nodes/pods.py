"""Pod subresources that node agents serve: log, exec, attach and portforward; and proxy."""

from __future__ import annotations

from collections import Counter

from apiserver_stub.apimachinery.objects import Object, decode, dig, key_of
from apiserver_stub.apimachinery.status import bad_request, not_found
from apiserver_stub.nodes.addressing import is_port, only_global, split_name
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.proxy import proxy
from apiserver_stub.nodes.reverse_proxy import relay_text
from apiserver_stub.nodes.stream import Stream
from apiserver_stub.nodes.targets import forward_target, log_target, stream_target
from apiserver_stub.nodes.upgrade import upgrade
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.transport.websocket import is_websocket


async def log(stream: Stream) -> Rendered | None:
    """Respond with a container's log, or with 204 for an unscheduled pod."""
    pod = _pod(stream, stream.info.name)
    target = log_target(pod, stream.query)
    node = dig(pod, ("spec", "nodeName"))
    if not node:
        return Rendered(204, "", [])
    verify = not stream.query.flag("insecureSkipTLSVerifyBackend")
    return await relay_text(stream, await stream.agents.endpoint_of(node, kind="pods", verify=verify), target)


async def exec_(stream: Stream, *, translations: Counter[int] | None = None) -> Rendered | None:
    """Connect the client to a command in a container.

    :param translations: counts WebSockets with the subprotocol ``v5.channel.k8s.io``, which are translated to SPDY;
        ``None`` if they are not.
    """
    pod = _pod(stream, stream.info.name)
    return await _to_agent(stream, pod, stream_target("exec", pod, stream.query), translations=translations)


async def attach(stream: Stream, *, translations: Counter[int] | None = None) -> Rendered | None:
    """Connect the client to the main process of a container; see :func:`exec_`."""
    pod = _pod(stream, stream.info.name)
    return await _to_agent(stream, pod, stream_target("attach", pod, stream.query), translations=translations)


async def port_forward(stream: Stream) -> Rendered | None:
    """Connect the client to ports of a pod."""
    pod = _pod(stream, stream.info.name)
    return await _to_agent(stream, pod, forward_target(pod, stream.query))


async def proxy_pod(stream: Stream) -> Rendered | None:
    """Proxy the request to the pod's IP address, at the requested port or the first declared one."""
    scheme, name, port = split_name(stream.info.name, "pod")
    pod = _pod(stream, name)
    declared = (item.get("ports") or [{}] for item in dig(pod, ("spec", "containers")) or ())
    first = next((ports[0]["containerPort"] for ports in declared if ports[0].get("containerPort")), 0)
    host = only_global(dig(pod, ("status", "podIP")) or "")
    encrypted = scheme == "https"
    number = int(port) if is_port(port) else first or (443 if encrypted else 80)
    if port and not is_port(port):
        raise bad_request(f'invalid pod request "{stream.info.name}"')
    return await proxy(stream, Endpoint(host, number, stream.agents.plain_tls if encrypted else None))


async def _to_agent(
    stream: Stream, pod: Object, target: str, *, translations: Counter[int] | None = None
) -> Rendered | None:
    node = dig(pod, ("spec", "nodeName"))
    if not node:
        raise bad_request(f"pod {stream.info.name} does not have a host assigned")
    endpoint = await stream.agents.endpoint_of(node, kind="pods")
    if translations is not None and is_websocket(stream.http):
        from apiserver_stub.nodes.translation import requests_stream_close, translate  # Deferred: off by default.

        if requests_stream_close(stream.http):
            return await translate(stream, endpoint, target, translations)
    return await upgrade(stream, endpoint, target)


def _pod(stream: Stream, name: str) -> Object:
    record = stream.store.collection("core/pods").get(key_of(stream.info.namespace, name))
    if record is None:
        raise not_found("", "pods", name)
    found: Object = decode(record.data)
    return found
