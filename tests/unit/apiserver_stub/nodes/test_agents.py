"""Tests for connections to node agents: certificates, addresses, time limits and calls."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.egress.dialing import DirectDialer, HttpConnectDialer
from apiserver_stub.nodes.agents import NodeAgents, Unreachable
from apiserver_stub.nodes.client_certificate import generate_client_certificate
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.options import parse
from apiserver_stub.server.outgoing import node_agent_settings
from nodeagent.base.tls import TlsError

from .backend import Backend, node, node_agents, reply, serving, store_of


class Silent(DirectDialer):
    """Dialer that never connects."""

    async def connect(
        self, factory: Callable[[], Any], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> Any:
        await asyncio.Event().wait()


@pytest.mark.row("opt.nodeagent-timeout")
@pytest.mark.parametrize(("option", "seconds"), [("2h", 7200.0), ("0s", None)])
async def test_connection_attempt_times_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, seconds: float | None
) -> None:
    settings = node_agent_settings(parse([f"--nodeagent-timeout={option}", f"--data-dir={tmp_path}"]))
    generate_client_certificate(settings.own_authorities)
    agents = NodeAgents(settings, None, Silent())  # type: ignore[arg-type]
    endpoint = Endpoint("192.0.2.1", 10250, agents.plain_tls)
    allowed: list[float | None] = []
    real = asyncio.timeout

    def passed_at_once(delay: float | None) -> asyncio.Timeout:
        allowed.append(delay)
        return real(0)

    with monkeypatch.context() as patched, pytest.raises(Unreachable):
        patched.setattr(asyncio, "timeout", passed_at_once)
        await agents.connect(asyncio.Protocol, endpoint)

    assert allowed == [seconds]


class OneNode:
    """Store with one node whose agent listens at *port*."""

    def __init__(self, port: int) -> None:
        status = {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}
        addresses = [{"type": "InternalIP", "address": "192.0.2.1"}]
        node = {"metadata": {"name": "a"}, "status": {**status, "addresses": addresses}}
        self.record = SimpleNamespace(data=json.dumps(node).encode())

    def collection(self, _name: str) -> dict[str, Any]:
        return {"a": self.record}


@pytest.mark.parametrize("port", [-1, 65536, 1 << 31])
async def test_invalid_port_in_the_status_of_a_node_is_unreachable(tmp_path: Path, port: int) -> None:
    settings = node_agent_settings(parse([f"--data-dir={tmp_path}"]))
    generate_client_certificate(settings.own_authorities)
    agents = NodeAgents(settings, OneNode(port))  # type: ignore[arg-type]

    with pytest.raises(Unreachable, match=f"dial tcp: address {port}: invalid port") as caught:
        await agents.endpoint_of("a")

    assert caught.value.code == 503


ADDRESSES = [
    {"type": "ExternalIP", "address": "192.0.2.9"},
    {"type": "InternalIP", "address": "192.0.2.1"},
    {"type": "InternalIP", "address": "192.0.2.2"},
]


@pytest.mark.row("opt.nodeagent-preferred-address-types")
@pytest.mark.parametrize(
    ("types", "host"), [("InternalIP,ExternalIP", "192.0.2.1"), ("Hostname,ExternalIP", "192.0.2.9")]
)
async def test_address_of_the_most_preferred_type_is_used(types: str, host: str) -> None:
    store = store_of(nodes=[node(addresses=ADDRESSES)])
    agents = node_agents(Backend(), store, f"--nodeagent-preferred-address-types={types}")

    endpoint = await agents.endpoint_of("a")

    assert (endpoint.host, endpoint.port, endpoint.origin) == (host, 10250, f"https://{host}:10250")


async def test_node_without_a_preferred_address_is_an_error() -> None:
    store = store_of(nodes=[node(addresses=ADDRESSES[:1]), node("b", addresses=None)])
    agents = node_agents(Backend(), store, "--nodeagent-preferred-address-types=Hostname")

    for name, known in (("a", "{ExternalIP 192.0.2.9}"), ("b", "")):
        with pytest.raises(ApiError) as error:
            await agents.endpoint_of(name)
        assert error.value.code == 500
        assert f"no preferred addresses found; known addresses: [{known}]" in error.value.message


def test_authority_of_an_ipv6_address_is_bracketed() -> None:
    plain = Endpoint("2001:db8::1", 80)

    assert (plain.authority, plain.origin) == ("[2001:db8::1]:80", "http://[2001:db8::1]:80")
    assert Endpoint("node", 80).authority == "node:80"


NAMES = [{"type": "Hostname", "address": name} for name in ("missing", "known", "other")]


@pytest.mark.parametrize(
    ("resolvable", "dialer", "host"),
    [
        ({"known", "other"}, DirectDialer(), "known"),
        ({"missing", "known"}, DirectDialer(), "missing"),
        (set(), DirectDialer(), "other"),
        (set(), HttpConnectDialer("proxy", 3128), "missing"),
    ],
)
async def test_first_name_that_can_be_resolved_is_used(
    monkeypatch: pytest.MonkeyPatch, resolvable: set[str], dialer: Any, host: str
) -> None:
    async def getaddrinfo(name: str, *_: Any, **_options: Any) -> list[Any]:
        if name not in resolvable:
            raise socket.gaierror("no such host")
        return []

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    store = store_of(nodes=[node(addresses=NAMES)])
    agents = node_agents(dialer, store, "--nodeagent-preferred-address-types=Hostname")

    assert (await agents.endpoint_of("a")).host == host
    assert agents.connects_by_name is isinstance(dialer, HttpConnectDialer)


async def test_call_returns_the_status_and_body_of_the_response() -> None:
    async with serving(reply("202 Accepted", b"x" * 10)) as backend:
        agents = node_agents(backend, store_of(nodes=[node()]))
        found = await agents.call("a", "POST", "/checkpoint", b"{}", max_reply_bytes=10)
        await agents.call("a", "GET", "/pods", max_reply_bytes=10)

    first, second = backend.requests
    assert found == (202, b"x" * 10)
    assert (first.method, first.target, first.body) == ("POST", "/checkpoint", b"{}")
    assert first.headers["Content-Type"] == "application/json"
    assert (second.method, second.body) == ("GET", b"")
    assert "Content-Type" not in second.headers
    assert "User-Agent" not in second.headers


@pytest.mark.parametrize(
    ("response", "options", "why"),
    [
        (reply("200 OK", b"x" * 11), {}, "response exceeds 10 bytes"),
        (b"", {"closes": True}, "Server disconnected"),
        (b"", {"error": OSError(errno.EHOSTUNREACH, "x")}, "dial tcp 192.0.2.1:10250: connect: no route to host"),
    ],
)
async def test_failed_call_is_unreachable(response: bytes, options: Any, why: str) -> None:
    async with serving(response, **options) as backend:
        agents = node_agents(backend, store_of(nodes=[node()]))
        with pytest.raises(Unreachable) as error:
            await agents.call("a", "GET", "/pods", max_reply_bytes=10)

    assert (error.value.why, error.value.code) == (why, 503)


def test_certificates_are_configured_or_generated(tmp_path: Path) -> None:
    generated = node_agent_settings(parse([f"--data-dir={tmp_path}"])).own_authorities
    generate_client_certificate(generated)
    given = [f"--nodeagent-client-{name}={generated / f'nodeagent-client.{end}'}" for name, end in PAIR]

    assert node_agents(Backend(), store_of()).client_authority is not None
    assert node_agents(Backend(), store_of(), *given).client_authority is None


PAIR = (("certificate", "crt"), ("key", "key"))


@pytest.mark.parametrize(
    ("option", "content", "why"),
    [
        ("certificate-authority", None, "open {path}: no such file or directory"),
        ("certificate-authority", b"", "no certificate or crl found"),
        ("client-certificate", None, "open {path}: no such file or directory"),
        ("client-key", None, "open {path}: no such file or directory"),
    ],
)
def test_invalid_certificate_files_are_reported(tmp_path: Path, option: str, content: bytes | None, why: str) -> None:
    generated = node_agent_settings(parse([f"--data-dir={tmp_path}"])).own_authorities
    generate_client_certificate(generated)
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    files = {f"client-{name}": generated / f"nodeagent-client.{end}" for name, end in PAIR} | {option: path}

    with pytest.raises(TlsError, match='problem initializing API group "" : ') as error:
        node_agents(Backend(), store_of(), *(f"--nodeagent-{name}={file}" for name, file in files.items()))

    assert why.format(path=path) in str(error.value)


def test_generated_certificate_is_kept_until_a_file_is_missing(tmp_path: Path) -> None:
    names = ("nodeagent-client.crt", "nodeagent-client.key", "nodeagent-client-ca.crt", "nodeagent-client-ca.key")

    def generate() -> list[bytes]:
        generate_client_certificate(tmp_path)
        return [(tmp_path / name).read_bytes() for name in names]

    before = generate()
    assert generate() == before
    for missing, kept in ((names[0], 2), (names[1], 2), (names[2], 0), (names[3], 0)):
        (tmp_path / missing).unlink()
        after = generate()
        assert sum(one == other for one, other in zip(before, after, strict=True)) == kept, missing
        before = after
