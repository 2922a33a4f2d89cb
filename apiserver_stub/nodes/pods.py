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
from nodeagent.base.structs import Struct

_DECLARED = "ExtendWebSocketsToKubelet"


class WebSocketRules(Struct, frozen=True):
    """WebSockets that this server translates to SPDY, by feature gates."""

    translations: Counter[int] | None = None
    """Counts commands with the subprotocol ``v5.channel.k8s.io``, which are translated; ``None`` if they are not."""
    tunnels_ports: bool = False
    """``True`` if WebSockets can carry the SPDY connection of a port-forward."""
    extends_to_agents: bool = False
    """``True`` if node agents that declare it receive the WebSockets unchanged."""

    def passes_to(self, node: Object) -> bool:
        """Return whether the agent of *node* translates WebSockets itself (spec: gate.ExtendWebSocketsToNodeAgent)."""
        return self.extends_to_agents and _DECLARED in (dig(node, ("status", "declaredFeatures")) or ())


async def log(stream: Stream, *, selects_stream: bool | None) -> Rendered | None:
    """Respond with a container's log, or with 204 for an unscheduled pod; see :func:`log_target`."""
    pod = _pod(stream, stream.info.name)
    target = log_target(pod, stream.query, selects_stream=selects_stream)
    node = dig(pod, ("spec", "nodeName"))
    if not node:
        return Rendered(204, "", [])
    verify = not stream.query.flag("insecureSkipTLSVerifyBackend")
    return await relay_text(stream, await stream.agents.endpoint_of(node, kind="pods", verify=verify), target)


async def exec_(stream: Stream, *, rules: WebSocketRules) -> Rendered | None:
    """Connect the client to a command in a container.

    :param rules: WebSockets that are translated to SPDY.
    """
    pod = _pod(stream, stream.info.name)
    return await _run_command(stream, pod, stream_target("exec", pod, stream.query), rules)


async def attach(stream: Stream, *, rules: WebSocketRules) -> Rendered | None:
    """Connect the client to the main process of a container; see :func:`exec_`."""
    pod = _pod(stream, stream.info.name)
    return await _run_command(stream, pod, stream_target("attach", pod, stream.query), rules)


async def port_forward(stream: Stream, *, rules: WebSocketRules) -> Rendered | None:
    """Connect the client to ports of a pod; see :func:`exec_`."""
    pod = _pod(stream, stream.info.name)
    target = forward_target(pod, stream.query)
    endpoint, node = await _agent_of(stream, pod)
    if rules.tunnels_ports and is_websocket(stream.http) and not rules.passes_to(node):
        from apiserver_stub.nodes.port_tunnel import requests_tunnel, tunnel  # Deferred: off by default.

        if requests_tunnel(stream.http):
            return await tunnel(stream, endpoint, target)
    return await upgrade(stream, endpoint, target)


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


async def _run_command(stream: Stream, pod: Object, target: str, rules: WebSocketRules) -> Rendered | None:
    endpoint, node = await _agent_of(stream, pod)
    if rules.translations is not None and is_websocket(stream.http) and not rules.passes_to(node):
        from apiserver_stub.nodes.translation import requests_stream_close, translate  # Deferred: off by default.

        if requests_stream_close(stream.http):
            return await translate(stream, endpoint, target, rules.translations)
    return await upgrade(stream, endpoint, target)


async def _agent_of(stream: Stream, pod: Object) -> tuple[Endpoint, Object]:
    """Return the endpoint of the agent of *pod*, and its node."""
    node = dig(pod, ("spec", "nodeName"))
    if not node:
        raise bad_request(f"pod {stream.info.name} does not have a host assigned")
    return await stream.agents.endpoint_of(node, kind="pods"), stream.agents.node(node, "pods")


def _pod(stream: Stream, name: str) -> Object:
    record = stream.store.collection("core/pods").get(key_of(stream.info.namespace, name))
    if record is None:
        raise not_found("", "pods", name)
    found: Object = decode(record.data)
    return found
