"""Tests for requests that are proxied to node agents, nodes, services and pods."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from nodeagent.testing.apiserver import usual_options

from .agents import ACCEPTED, Pki, ProxyServer, agent, backend, proxy
from .conftest import Api, Server

PODS = "/api/v1/namespaces/default/pods"
NODE_IP = "192.0.2.50"
SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1", "X-Stream-Protocol-Version": "v4.channel.k8s.io"}


def _register(api: Api, name: str, addresses: list[tuple[str, str]], port: int) -> None:
    status = {
        "addresses": [{"type": kind, "address": address} for kind, address in addresses],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": status})
    spec = {"nodeName": name, "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}
    api.ok("POST", PODS, {"metadata": {"name": f"on-{name}"}, "spec": spec})


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"), "known-ca")


@pytest.fixture(scope="module")
def port(pki: Pki) -> Iterator[int]:
    with agent(pki) as found:
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, pki: Pki, port: int) -> Iterator[Server]:
    """Server with all options for connections to agents."""
    certificate, key = pki.pair("the-api-server")
    found = Server(
        tmp_path_factory.mktemp("agents"),
        f"--nodeagent-certificate-authority={pki.ca_file}",
        f"--nodeagent-client-certificate={certificate}",
        f"--nodeagent-client-key={key}",
        "--nodeagent-preferred-address-types=ExternalIP,InternalIP",
        "--nodeagent-timeout=500ms",
        "--compatibility-version=1.36",
        "--feature-gates=PodLogsQuerySplitStreams=true",
    )
    api = found.api()
    _register(api, "good", [("Hostname", "nowhere.invalid"), ("InternalIP", "127.0.0.1")], port)
    _register(api, "named", [("InternalIP", "localhost")], port)
    _register(api, "unaddressed", [("Hostname", "127.0.0.1")], port)
    yield found
    assert found.stop() == 0


def _exec(server: Server, path: str, headers: dict[str, str] | None = None) -> tuple[bytes, bytes]:
    """Send an upgrade request and data; return the response headers and the data up to the echo."""
    url = urlsplit(server.ready["url"])
    context = ssl.create_default_context(cafile=server.ready["caFile"])
    with (
        socket.create_connection((url.hostname or "", url.port or 0), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=url.hostname) as connection,
    ):
        sent = {"Host": "me", "Authorization": f"Bearer {server.ready['token']}", **SPDY, **(headers or {})}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        data = b""
        while b"\r\n\r\n" not in data:
            data += _some(connection)
        head, _, rest = data.partition(b"\r\n\r\n")
        if b" 101 " in head:
            connection.sendall(b"z" * 500_000 + b"!")
            while not rest.endswith(b"!"):
                rest += _some(connection)
        else:
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(rest) < length:
                rest += connection.recv(65536)
        return head + b"\r\n\r\n", rest


def _some(connection: ssl.SSLSocket) -> bytes:
    data = connection.recv(65536)
    assert data, "closed too early"
    return data


@pytest.mark.row("opt.nodeagent-client-certificate", "opt.nodeagent-client-key", "opt.nodeagent-certificate-authority")
def test_server_presents_its_certificate_and_verifies_agents(server: Server, api: Api) -> None:
    seen = json.loads(api.raw("GET", f"{PODS}/on-good/log?container=c&tailLines=3&follow=true&timestamps=0")[2])

    assert seen["who"] == "the-api-server"
    assert seen["path"] == "/containerLogs/default/on-good/c?follow=true&tailLines=3"
    assert "Authorization" not in seen["headers"]
    code, rejection = api.call("GET", f"{PODS}/on-named/log?container=c")  # the certificate is valid only for 127.0.0.1
    assert code == 500
    assert rejection["message"].startswith('Get "https://localhost:')
    assert "certificate verify failed" in rejection["message"].lower().replace("_", " ")
    unverified = api.raw("GET", f"{PODS}/on-named/log?container=c&insecureSkipTLSVerifyBackend=true")
    assert unverified[0] == 200


@pytest.mark.row("opt.nodeagent-preferred-address-types")
def test_addresses_of_other_types_are_not_used(server: Server, api: Api) -> None:
    assert api.raw("GET", f"{PODS}/on-good/log?container=c")[0] == 200
    code, rejection = api.call("GET", f"{PODS}/on-unaddressed/log?container=c")
    assert code == 500
    assert "no preferred addresses found; known addresses: [{Hostname 127.0.0.1}]" in rejection["message"]


@pytest.mark.row("opt.nodeagent-timeout")
def test_unresponsive_agent_times_out(server: Server, api: Api) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _register(api, "silent", [("InternalIP", "127.0.0.1")], silent.getsockname()[1])
        code, rejection = api.call("GET", f"{PODS}/on-silent/log?container=c")

    assert code == 500
    assert rejection["message"].endswith("i/o timeout")


@pytest.fixture(scope="module")
def unreachable(server: Server) -> int:
    """Port of a node whose agent does not listen."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = int(silent.getsockname()[1])
    _register(server.api(), "unreachable", [("InternalIP", "127.0.0.1")], port)
    return port


def test_log_of_an_unreachable_agent_is_an_error(api: Api, unreachable: int) -> None:
    code, rejection = api.call("GET", f"{PODS}/on-unreachable/log?container=c&follow=true")

    assert code == 500
    assert "reason" not in rejection
    url = f"https://127.0.0.1:{unreachable}/containerLogs/default/on-unreachable/c?follow=true"
    assert rejection["message"] == f'Get "{url}": dial tcp 127.0.0.1:{unreachable}: connect: connection refused'


@pytest.mark.parametrize("subresource", ["exec?command=true&stdout=1&container=c", "attach?container=c", "portforward"])
def test_stream_to_an_unreachable_agent_is_an_error(server: Server, unreachable: int, subresource: str) -> None:
    head, rest = _exec(server, f"{PODS}/on-unreachable/{subresource}")

    assert head.startswith(b"HTTP/1.1 500 ")
    rejection = json.loads(rest)
    assert "reason" not in rejection
    assert rejection["message"] == (
        f"error dialing backend: dial tcp 127.0.0.1:{unreachable}: connect: connection refused"
    )


def _websocket(
    server: Server, path: str, *protocols: str, version: str = "13"
) -> tuple[bytes, list[tuple[int, bytes]]]:
    """Return the response headers and the following frames by their first byte."""
    url = urlsplit(server.ready["url"])
    context = ssl.create_default_context(cafile=server.ready["caFile"])
    with (
        socket.create_connection((url.hostname or "", url.port or 0), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=url.hostname) as connection,
    ):
        sent = {"Host": "me", "Authorization": f"Bearer {server.ready['token']}", "Connection": "Upgrade"}
        sent |= {
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": version,
            "Sec-WebSocket-Key": "MDAwMDAwMDAwMDAwMDAwMA==",
        }
        if protocols:
            sent["Sec-WebSocket-Protocol"] = ", ".join(protocols)
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        data = b""
        while b"\r\n\r\n" not in data or (b" 101 " in data[:20] and b"\x88\x02" not in data):
            data += _some(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    frames = []
    while b" 101 " in head and rest:
        short = rest[1]
        start, length = (4, int.from_bytes(rest[2:4], "big")) if short == 126 else (2, short)
        frames.append((rest[0], rest[start : start + length]))
        rest = rest[start + length :]
    return head, frames


@pytest.mark.parametrize("protocols", [(), ("binary.k8s.io",), ("foo", "binary.k8s.io")])
def test_log_over_a_websocket_has_binary_messages(server: Server, protocols: tuple[str, ...]) -> None:
    head, frames = _websocket(server, f"{PODS}/on-good/log?container=c", *protocols)

    assert head.startswith(b"HTTP/1.1 101 ")
    assert (b"Sec-WebSocket-Protocol: binary.k8s.io" in head) is bool(protocols)
    first, *middle, last = frames
    assert (first, last) == ((0x82, b""), (0x88, b"\x03\xe8"))
    assert {kind for kind, _ in middle} == {0x82}
    assert json.loads(b"".join(data for _, data in middle))["path"] == "/containerLogs/default/on-good/c"


def test_log_over_a_websocket_can_be_base64_text(server: Server) -> None:
    head, frames = _websocket(server, f"{PODS}/on-good/log?container=c", "base64.binary.k8s.io")

    assert b"Sec-WebSocket-Protocol: base64.binary.k8s.io" in head
    assert {kind for kind, _ in frames[:-1]} == {0x81}
    text = b"".join(base64.b64decode(data) for _, data in frames[:-1])
    assert json.loads(text)["path"] == "/containerLogs/default/on-good/c"


@pytest.mark.parametrize(
    ("protocol", "version", "status"), [("foo", "13", b"403 Forbidden"), ("binary.k8s.io", "12", b"400 Bad Request")]
)
def test_websocket_with_unknown_protocol_is_rejected(
    server: Server, protocol: str, version: str, status: bytes
) -> None:
    head, _ = _websocket(server, f"{PODS}/on-good/log?container=c", protocol, version=version)

    assert head.startswith(b"HTTP/1.1 " + status)


def test_exec_is_tunneled(server: Server) -> None:
    path = f"{PODS}/on-good/exec?container=c&command=echo&command=a+b&stdin=true&stdout=true&tty=false"
    head, rest = _exec(
        server, path, {"Cookie": "a=b", "Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
    )
    seen, _, echo = rest.partition(b"\n")
    reported = json.loads(seen)

    assert head == ACCEPTED
    assert reported["path"] == "/exec/default/on-good/c?command=echo&command=a+b&input=1&output=1"
    assert (reported["who"], reported["method"], reported["headers"]["Host"]) == ("the-api-server", "POST", "me")
    assert reported["headers"]["X-Stream-Protocol-Version"] == "v4.channel.k8s.io"
    assert not {"Authorization", "Cookie", "Impersonate-User"} & set(reported["headers"])
    assert echo == b"z" * 500_000 + b"!"


def test_redirect_of_an_upgrade_is_not_forwarded(server: Server) -> None:
    head, rest = _exec(server, f"{PODS}/on-good/attach?container=c")

    assert head.startswith(b"HTTP/1.1 500 ")
    assert b"location" not in head.lower()
    assert json.loads(rest)["message"] == "invalid upgrade response: status code 302"


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("GET", "on-good/log", 400, "a container name must be specified for pod on-good, choose one of: [c d]"),
        ("GET", "on-good/log?container=zz", 400, "container zz is not valid for pod on-good"),
        ("GET", "on-good/log?container=c&tailLines=-1", 422, "must be greater than or equal to 0"),
        ("GET", "on-good/log?container=c&sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of"),
        ("GET", "on-good/log?container=c&stream=x", 422, 'stream: Unsupported value: "x": supported values: "All"'),
        ("GET", "on-good/log?container=c&limitBytes=x", 400, 'parsing "x": invalid syntax'),
        ("POST", "on-good/exec?container=c&command=true&stdout=1", 400, "Upgrade request required"),
        ("POST", "nope/exec?command=true", 404, 'pods "nope" not found'),
        ("DELETE", "on-good/exec", 405, "does not allow this method"),
        ("GET", "on-good/exec/more", 404, "could not find the requested resource"),
        ("GET", "on-good/proxy/x", 400, "address not allowed"),
    ],
)
def test_invalid_requests_are_rejected(
    server: Server, api: Api, method: str, path: str, code: int, message: str
) -> None:
    found, response = api.call(method, f"{PODS}/{path}")

    assert (found, response["kind"]) == (code, "Status")
    assert message in response["message"]


def test_log_of_an_unassigned_pod_is_empty(server: Server, api: Api) -> None:
    body = {"metadata": {"name": "waiting"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    api.ok("POST", PODS, body)
    assert api.call("GET", f"{PODS}/waiting/log") == (204, b"")
    code, rejection = api.call("POST", f"{PODS}/waiting/portforward")
    assert (code, rejection["message"]) == (400, "pod waiting does not have a host assigned")
    api.ok("DELETE", f"{PODS}/waiting")


def test_proxies_reject_loopback_addresses(server: Server, api: Api) -> None:
    for name in ("good", "named", "good:22", "http:good:80"):
        code, rejection = api.call("GET", f"/api/v1/nodes/{name}/proxy/pods")
        assert (code, rejection["message"]) == (400, "address not allowed")
    assert api.call("GET", "/api/v1/nodes/nope/proxy/pods")[0] == 404


@contextmanager
def _behind_proxy(directory: Path, pki: Pki, port: int) -> Iterator[tuple[Server, ProxyServer, Api]]:
    with proxy(port) as way:
        config = directory / "egress.yaml"
        transport = {"tcp": {"url": f"http://127.0.0.1:{way.server_address[1]}"}}
        selection = {"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect", "transport": transport}}
        direct = {"name": "etcd", "connection": {"proxyProtocol": "Direct"}}
        document: Any = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
        config.write_text(yaml.safe_dump({**document, "egressSelections": [selection, direct]}))
        certificate, key = pki.pair("behind-the-proxy")
        pair = (f"--nodeagent-client-certificate={certificate}", f"--nodeagent-client-key={key}")
        server = Server(directory, f"--egress-selector-config-file={config}", *pair)
        try:
            yield server, way, server.api()
        finally:
            assert server.stop() == 0


@pytest.mark.row("opt.egress-selector-config-file")
def test_nodes_are_connected_through_the_egress_proxy(tmp_path: Path, pki: Pki, port: int) -> None:
    with _behind_proxy(tmp_path, pki, port) as (server, way, api):
        _register(api, "far", [("InternalIP", NODE_IP)], 10250)
        seen = json.loads(api.raw("GET", f"{PODS}/on-far/log?container=c")[2])
        assert way.requests == [f"{NODE_IP}:10250"]
        assert seen["path"] == "/containerLogs/default/on-far/c"

        head, rest = _exec(server, f"{PODS}/on-far/exec?container=c&command=true&stdout=true")
        assert head == ACCEPTED
        assert rest.endswith(b"z!")

        _check_node_proxy(api)

        way.rejects = True
        code, rejection = api.call("GET", f"{PODS}/on-far/log?container=c")
        assert code == 500
        assert "the proxy responded with" in rejection["message"]


def _check_node_proxy(api: Api) -> None:
    """Check that the node proxy forwards complete requests without the client's credentials."""
    path = "/api/v1/nodes/far/proxy"
    body = {"a": 1}
    code, headers, _ = api.raw("GET", path)
    assert (code, headers["location"]) == (301, f"{path}/")
    assert headers["audit-id"] and headers["cache-control"] == "no-cache, private"
    seen = json.loads(api.raw("PUT", f"{path}/some/%2Fpath?x=1&y=%20", body, headers={"X-Mine": "v"})[2])
    assert (seen["method"], seen["path"]) == ("PUT", "/some/%2Fpath?x=1&y=%20")
    assert json.loads(seen["body"]) == body
    assert seen["headers"]["X-Mine"] == "v"
    assert seen["headers"]["X-Forwarded-For"] == "127.0.0.1"
    assert "Authorization" not in seen["headers"]
    code, headers, _ = api.raw("GET", f"{path}/redirect")
    assert (code, headers["location"]) == (302, f"{path}/elsewhere?a=b")
    assert api.raw("GET", f"{path}/broken")[0] == 400


POD_IP = "198.51.100.7"


def _serve_by_pod(api: Api) -> None:
    """Create a pod with an address, and services for it."""
    spec = {"nodeName": "far", "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}]}
    api.ok("POST", PODS, {"metadata": {"name": "shop"}, "spec": spec})
    status = {"status": {"phase": "Running", "podIP": POD_IP, "podIPs": [{"ip": POD_IP}]}}
    api.ok("PATCH", f"{PODS}/shop/status", status, content_type="application/merge-patch+json")
    reference = {"kind": "Pod", "namespace": "default", "name": "shop"}
    for name, port, target in (
        ("shop", {"name": "web", "port": 80, "targetPort": 8080}, reference),
        ("plain", {"port": 80, "targetPort": 8080}, reference),
        ("outside", {"port": 80}, None),
        ("liar", {"port": 80}, {**reference, "name": "on-far"}),
    ):
        root = "/api/v1/namespaces/default"
        api.ok("POST", f"{root}/services", {"metadata": {"name": name}, "spec": {"ports": [port]}})
        named = {"name": port["name"]} if "name" in port else {}
        address = {"ip": POD_IP, "targetRef": target} if target else {"ip": POD_IP}
        subsets = [{"addresses": [address], "ports": [{**named, "port": 8080}]}]
        api.ok("POST", f"{root}/endpoints", {"metadata": {"name": name}, "subsets": subsets})


def test_service_and_pod_proxies_forward_requests(tmp_path_factory: pytest.TempPathFactory, pki: Pki) -> None:
    with backend() as port, _behind_proxy(tmp_path_factory.mktemp("services"), pki, port) as (server, way, api):
        _serve_by_pod(api)
        services = "/api/v1/namespaces/default/services"
        for name in ("shop:web", "http:shop:web", "shop:80", "plain", "plain:80"):
            seen = json.loads(api.raw("POST", f"{services}/{name}/proxy/some/path?x=1", {"a": 1})[2])
            assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/some/path?x=1", '{"a": 1}')
            assert "Authorization" not in seen["headers"]
        assert way.requests == [f"{POD_IP}:8080"] * 5
        assert api.raw("GET", f"{services}/plain/proxy/redirect")[1]["location"].startswith(f"{services}/plain/proxy/")
        head, rest = _exec(server, f"{services}/plain/proxy/stream")
        assert head == ACCEPTED
        assert rest.endswith(b"z!")

        for name in ("shop", "shop:other", "outside", "liar"):
            code, rejection = api.call("GET", f"{services}/{name}/proxy/")
            assert (code, rejection["message"]) == (503, f'no endpoints available for service "{name}"')
        code, rejection = api.call("GET", f"{services}/shop:81/proxy/")
        assert (code, rejection["message"]) == (503, 'no service port 81 found for service "shop"')
        assert api.call("GET", f"{services}/nobody/proxy/")[0] == 404

        way.requests.clear()
        assert json.loads(api.raw("GET", f"{PODS}/shop/proxy/a/b?c=d")[2])["path"] == "/a/b?c=d"
        assert json.loads(api.raw("GET", f"{PODS}/shop:9090/proxy/")[2])["path"] == "/"
        assert way.requests == [f"{POD_IP}:8080", f"{POD_IP}:9090"]
        assert api.call("GET", f"{PODS}/shop:web/proxy/")[0] == 400

        raw = server.kubectl("get", "--raw", f"{services}/plain/proxy/raw")
        assert json.loads(raw)["path"] == "/raw"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nodeagent-certificate-authority=/nope", "open /nope: no such file or directory"),
        ("--egress-selector-config-file=/nope", "failed to read egress selector config"),
        ("--nodeagent-client-key=/nope", "must be specified together"),
    ],
)
@pytest.mark.row("opt.nodeagent-certificate-authority", "opt.egress-selector-config-file", "opt.nodeagent-client-key")
def test_invalid_files_prevent_start(tmp_path: Path, option: str, message: str) -> None:
    command = [sys.executable, "-m", "apiserver_stub", *usual_options(tmp_path, option)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)

    assert result.returncode in (1, 2)
    assert message in result.stderr
