"""Tests for the subresources of pods that node agents serve, and for their proxy."""

from __future__ import annotations

import errno
import ssl
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes import pods
from apiserver_stub.nodes.pods import WebSocketRules
from apiserver_stub.transport import websocket
from nodeagent.base.tls import generate_ca
from tests.unit.apiserver_stub.transport.test_websocket import HANDSHAKE

from .backend import node, pod, reply, serving, store_of, stream_to

PATH = "/api/v1/namespaces/default/pods/web"
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
REJECTION = reply("403 Forbidden", b"no")
"""Response to an upgrade that ends it."""


async def test_log_is_read_from_the_agent_of_the_pod() -> None:
    store = store_of(pods=[pod()], nodes=[node(port=10299)])
    async with serving(reply("200 OK", b"line\n")) as backend:
        stream = stream_to(backend, store, f"{PATH}/log?tailLines=1", headers={"Authorization": "Bearer x"})
        assert await pods.log(stream, selects_stream=None) is None

    http: Any = stream.http
    (dialed,) = backend.dialed
    assert (dialed.host, dialed.port, dialed.tls is not None) == ("192.0.2.1", 10299, True)
    assert (backend.request.method, backend.request.target) == ("GET", "/containerLogs/default/web/c?tailLines=1")
    assert "Authorization" not in backend.request.headers
    assert (http.status, http.sent, http.completed) == (200, b"line\n", True)
    assert http.sent_headers["Content-Type"] == "text/plain"
    assert (stream.started, stream.code) == (True, 200)


async def test_log_of_an_unscheduled_pod_is_empty() -> None:
    for where in (None, ""):
        async with serving() as backend:
            store = store_of(pods=[pod(on=where)])
            response = await pods.log(stream_to(backend, store, f"{PATH}/log"), selects_stream=None)
        assert response is not None
        assert (response.code, backend.dialed) == (204, [])


async def test_missing_pods_and_nodes_are_not_found() -> None:
    for store, text in ((store_of(), 'pods "web" not found'), (store_of(pods=[pod()]), 'pods "a" not found')):
        async with serving() as backend:
            with pytest.raises(ApiError) as error:
                await pods.log(stream_to(backend, store, f"{PATH}/log"), selects_stream=None)
        assert (error.value.code, error.value.message) == (404, text)


@pytest.mark.parametrize(
    ("query", "verifies"),
    [("", True), ("?insecureSkipTLSVerifyBackend=false", True), ("?insecureSkipTLSVerifyBackend=true", False)],
)
async def test_agent_is_verified_unless_the_client_skips_it(tmp_path: Path, query: str, verifies: bool) -> None:
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(generate_ca("agents").certificate)
    options = (f"--nodeagent-certificate-authority={bundle}",)
    async with serving(reply("200 OK")) as backend:
        store = store_of(pods=[pod()], nodes=[node()])
        await pods.log(stream_to(backend, store, f"{PATH}/log{query}", options=options), selects_stream=None)

    context = backend.dialed[0].tls
    assert context is not None
    assert context.verify_mode == (ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE)
    assert context.check_hostname is verifies


@pytest.mark.parametrize("handler", [pods.exec_, pods.attach, pods.port_forward])
async def test_command_needs_an_upgrade_and_a_node(handler: Any) -> None:
    async with serving() as backend:
        for store, text in (
            (store_of(pods=[pod(on=None)]), "pod web does not have a host assigned"),
            (store_of(pods=[pod()], nodes=[node()]), "Upgrade request required"),
        ):
            with pytest.raises(ApiError) as error:
                await handler(stream_to(backend, store, f"{PATH}/exec", "POST"), rules=WebSocketRules())
            assert (error.value.code, error.value.message) == (400, text)
    assert backend.dialed == []


@pytest.mark.parametrize(
    ("handler", "query", "target"),
    [
        (pods.exec_, "command=ls&command=-l&stdout=1", "/exec/default/web/c?command=ls&command=-l&output=1"),
        (pods.attach, "stdin=true&tty=true", "/attach/default/web/c?input=1&tty=1"),
        (pods.port_forward, "ports=80&ports=90", "/portForward/default/web?port=80%2C90"),
    ],
)
async def test_command_is_an_upgrade_to_the_agent(handler: Any, query: str, target: str) -> None:
    async with serving(REJECTION) as backend:
        store = store_of(pods=[pod()], nodes=[node()])
        stream = stream_to(backend, store, f"{PATH}/exec?{query}", "POST", SPDY)
        response = await handler(stream, rules=WebSocketRules(Counter(), tunnels_ports=True))

    assert (backend.request.method, backend.request.target) == ("POST", target)
    assert backend.request.headers["Upgrade"] == "SPDY/3.1"
    assert (response.code, b"".join(response.pieces)) == (403, b"no")


OFFERS = {**HANDSHAKE, "Sec-WebSocket-Protocol": "v5.channel.k8s.io"}
TUNNEL = {**HANDSHAKE, "Sec-WebSocket-Protocol": "SPDY/3.1+portforward.k8s.io"}
DECLARED = node(declaredFeatures=["ExtendWebSocketsToKubelet"])


@pytest.mark.parametrize(
    ("headers", "rules", "found", "translated"),
    [
        (OFFERS, WebSocketRules(Counter()), node(), True),
        (OFFERS, WebSocketRules(), node(), False),
        (OFFERS, WebSocketRules(Counter(), extends_to_agents=True), node(), True),
        (OFFERS, WebSocketRules(Counter(), extends_to_agents=True), DECLARED, False),
        (OFFERS, WebSocketRules(Counter()), DECLARED, True),
        ({**OFFERS, "Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, WebSocketRules(Counter()), node(), False),
        (SPDY, WebSocketRules(Counter()), node(), False),
    ],
)
async def test_commands_over_websockets_are_translated_by_the_rules(
    monkeypatch: pytest.MonkeyPatch, headers: Any, rules: WebSocketRules, found: Any, translated: bool
) -> None:
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0)
    async with serving(REJECTION, closes=True) as backend:
        store = store_of(pods=[pod()], nodes=[found])
        await pods.exec_(stream_to(backend, store, f"{PATH}/exec?command=ls", "GET", headers), rules=rules)

    # A translated command is a POST request for SPDY.
    assert backend.request.method == ("POST" if translated else "GET")
    assert backend.request.headers["Upgrade"] == ("SPDY/3.1" if translated else headers["Upgrade"])


@pytest.mark.parametrize(
    ("headers", "rules", "found", "tunneled"),
    [
        (TUNNEL, WebSocketRules(tunnels_ports=True), node(), True),
        (TUNNEL, WebSocketRules(), node(), False),
        (TUNNEL, WebSocketRules(tunnels_ports=True, extends_to_agents=True), DECLARED, False),
        ({**TUNNEL, "Sec-WebSocket-Protocol": "v4.channel.k8s.io"}, WebSocketRules(tunnels_ports=True), node(), False),
        ({**TUNNEL, **SPDY}, WebSocketRules(tunnels_ports=True), node(), False),
    ],
)
async def test_port_forwards_over_websockets_are_tunneled_by_the_rules(
    headers: Any, rules: WebSocketRules, found: Any, tunneled: bool
) -> None:
    async with serving(REJECTION, closes=True) as backend:
        store = store_of(pods=[pod()], nodes=[found])
        stream = stream_to(backend, store, f"{PATH}/portforward", "GET", headers)
        if tunneled:
            with pytest.raises(ApiError, match="no") as error:
                await pods.port_forward(stream, rules=rules)
            assert error.value.code == 403
        else:
            response = await pods.port_forward(stream, rules=rules)
            assert response is not None
            assert response.code == 403

    assert backend.request.headers["Upgrade"] == ("SPDY/3.1" if tunneled else headers["Upgrade"])


@pytest.mark.parametrize(("protocol", "accepted"), [("portforward.k8s.io", True), ("v4.channel.k8s.io", False)])
async def test_agent_must_support_the_protocol_of_a_tunnel(
    monkeypatch: pytest.MonkeyPatch, protocol: str, accepted: bool
) -> None:
    monkeypatch.setattr(websocket, "_CLOSE_SECONDS", 0)
    fields = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": protocol}
    async with serving(reply("101 Switching Protocols", **fields), closes=True) as backend:
        store = store_of(pods=[pod()], nodes=[node()])
        stream = stream_to(backend, store, f"{PATH}/portforward", "GET", TUNNEL)
        if accepted:
            assert await pods.port_forward(stream, rules=WebSocketRules(tunnels_ports=True)) is None
        else:
            with pytest.raises(ApiError, match="does not support") as error:
                await pods.port_forward(stream, rules=WebSocketRules(tunnels_ports=True))
            assert error.value.code == 502

    assert stream.started is accepted


@pytest.mark.parametrize(
    ("name", "ports", "dialed"),
    [
        ("web", None, (80, False)),
        ("https:web:", None, (443, True)),
        ("web", [], (80, False)),
        ("web", [{"containerPort": 8080}, {"containerPort": 9090}], (8080, False)),
        ("web", [{"name": "x"}], (80, False)),
        ("https:web:", [{"containerPort": 8080}], (8080, True)),
        ("web:9", [{"containerPort": 8080}], (9, False)),
        ("http:web:9", None, (9, False)),
        ("https:web:9", None, (9, True)),
    ],
)
async def test_pod_is_proxied_at_the_given_or_the_first_declared_port(name: str, ports: Any, dialed: Any) -> None:
    async with serving(reply("200 OK", b"hello")) as backend:
        store = store_of(pods=[pod(ports=ports)])
        stream = stream_to(backend, store, f"/api/v1/namespaces/default/pods/{name}/proxy/x?y=1")
        await pods.proxy_pod(stream)

    http: Any = stream.http
    (found,) = backend.dialed
    assert (found.host, (found.port, found.tls is not None)) == ("192.0.2.7", dialed)
    assert (backend.request.target, http.sent) == ("/x?y=1", b"hello")


@pytest.mark.parametrize(
    ("name", "ip", "text"),
    [
        ("web:http", "192.0.2.7", 'invalid pod request "web:http"'),
        ("web:0", "192.0.2.7", 'invalid pod request "web:0"'),
        ("x:web:1", "192.0.2.7", 'invalid pod request "x:web:1"'),
        ("web", "", "address not allowed"),
        ("web", "127.0.0.1", "address not allowed"),
    ],
)
async def test_invalid_proxy_request_for_a_pod_is_rejected(name: str, ip: str, text: str) -> None:
    async with serving() as backend:
        store = store_of(pods=[pod(ip=ip)])
        with pytest.raises(ApiError) as error:
            await pods.proxy_pod(stream_to(backend, store, f"/api/v1/namespaces/default/pods/{name}/proxy/"))

    assert (error.value.code, error.value.message, backend.dialed) == (400, text, [])


async def test_unreachable_pod_is_reported() -> None:
    async with serving(error=ConnectionRefusedError(errno.ECONNREFUSED, "refused")) as backend:
        with pytest.raises(ApiError) as error:
            await pods.proxy_pod(stream_to(backend, store_of(pods=[pod()]), f"{PATH}/proxy/"))

    text = "error trying to reach service: dial tcp 192.0.2.7:80: connect: connection refused"
    assert (error.value.code, error.value.message) == (503, text)
