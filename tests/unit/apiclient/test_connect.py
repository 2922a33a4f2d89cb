"""Tests for the credentials of a connection, as files appear and change."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from nodeagent.apiclient import pool
from nodeagent.apiclient.connect import connect
from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.credentials import CREDENTIALS_SECONDS, Credentials
from nodeagent.apiclient.http import HttpTransport
from nodeagent.apiclient.transport import ConnectionLost, Request
from nodeagent.base import kubeconfig
from nodeagent.base.tls import generate_ca, issue
from nodeagent.errors import ConfigError
from nodeagent.testing import FakeClock, make_config
from tests.unit.apiclient.streams import PreparedServer

CA = generate_ca("test-ca")
EXEC_VERSION = "client.authentication.k8s.io/v1"


def write(path: Path, *, server: str = "https://api:6443", **user: object) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(document))
    return path


def renew(path: Path) -> None:
    pair = issue(CA, "system:node:node-1", client=True)
    path.write_bytes(pair.certificate + pair.key)


def test_missing_certificate_is_an_error_unless_pending(tmp_path: Path, clock: FakeClock) -> None:
    pair = str(tmp_path / "current.pem")
    path = write(tmp_path / "kubeconfig", **{"client-certificate": pair, "client-key": pair})
    with pytest.raises(ConfigError, match="client-certificate"):
        connect(path, make_config(), clock)
    connect(path, make_config(), clock, pending=True)


@pytest.mark.row("config.rotateCertificates")
async def test_rotated_certificate_replaces_the_kubeconfigs_credentials(tmp_path: Path, clock: FakeClock) -> None:
    pair = tmp_path / "current.pem"
    credentials = Credentials(kubeconfig.load(write(tmp_path / "kubeconfig", token="own")), clock, pair)
    await credentials.refresh()
    first = credentials.context
    assert credentials.authorization == "Bearer own"

    renew(pair)
    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    second = credentials.context
    assert credentials.authorization == ""
    assert second is not first

    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    assert credentials.context is second
    renew(pair)
    clock.jump(CREDENTIALS_SECONDS)
    await credentials.refresh()
    assert credentials.context is not second


class Plugin:
    """Executable that prints a new token at each run."""

    def __init__(self, directory: Path) -> None:
        self._runs = directory / "runs"
        self.program = directory / "login"
        self.expires = ""
        self.respond()

    def respond(self, **status: str) -> None:
        status = {"token": "token-$count", **status, **({"expirationTimestamp": self.expires} if self.expires else {})}
        document = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}
        counted = f"echo >>{self._runs}; count=$(wc -l <{self._runs})"
        self._write(f"{counted}; cat <<END\n{json.dumps(document)}\nEND")

    def fail(self) -> None:
        self._write(f"echo >>{self._runs}; exit 1")

    @property
    def runs(self) -> int:
        return len(self._runs.read_text()) if self._runs.exists() else 0

    def _write(self, script: str) -> None:
        self.program.write_text(f"#!/bin/sh\n{script}\n")
        self.program.chmod(0o755)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def exec_credentials(tmp_path: Path, clock: FakeClock, plugin: Plugin, **user: object) -> Credentials:
    entry = {
        "apiVersion": EXEC_VERSION,
        "command": str(plugin.program),
        "interactiveMode": "Never",
    }
    return Credentials(kubeconfig.load(write(tmp_path / "kubeconfig", exec=entry, **user)), clock)


async def test_plugin_is_run_once_for_concurrent_requests(tmp_path: Path, clock: FakeClock, plugin: Plugin) -> None:
    credentials = exec_credentials(tmp_path, clock, plugin)

    await asyncio.gather(*(credentials.refresh() for _ in range(5)))
    await clock.advance(10 * CREDENTIALS_SECONDS)
    await credentials.refresh()

    assert credentials.authorization == "Bearer token-1"
    assert plugin.runs == 1


async def test_plugin_is_run_again_after_its_credentials_expired(
    tmp_path: Path, clock: FakeClock, plugin: Plugin
) -> None:
    plugin.expires = (clock.wall() + timedelta(seconds=60)).isoformat()
    plugin.respond()
    credentials = exec_credentials(tmp_path, clock, plugin)
    await credentials.refresh()
    await clock.advance(59)
    await credentials.refresh()
    assert plugin.runs == 1
    plugin.expires = (clock.wall() + timedelta(seconds=60)).isoformat()
    plugin.respond()

    await clock.advance(2)
    await credentials.refresh()

    assert credentials.authorization == "Bearer token-2"


async def test_plugin_is_run_again_after_the_server_rejected_its_token(
    tmp_path: Path, clock: FakeClock, plugin: Plugin
) -> None:
    credentials = exec_credentials(tmp_path, clock, plugin)
    await credentials.refresh()

    credentials.reject("Bearer token-1")
    await credentials.refresh()
    credentials.reject("Bearer token-1")  # Another request with the replaced token.
    await credentials.refresh()

    assert credentials.authorization == "Bearer token-2"
    assert plugin.runs == 2


@pytest.mark.parametrize(("status", "second"), [(401, "token-2"), (403, "token-1")])
async def test_only_401_requests_a_new_token(
    tmp_path: Path, clock: FakeClock, plugin: Plugin, monkeypatch: pytest.MonkeyPatch, status: int, second: str
) -> None:
    exec_credentials(tmp_path, clock, plugin)
    servers = [
        PreparedServer(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status) for _ in "12"
    ]
    unused = iter(servers)

    async def dial(*_: object) -> Connection:
        return next(unused).connection

    monkeypatch.setattr(pool, "dial", dial)
    transport = HttpTransport(kubeconfig.load(tmp_path / "kubeconfig"), clock)
    for _ in servers:
        await transport.request(Request("GET", "/"), 10)
    await transport.close()

    assert "Authorization: Bearer token-1\r\n" in servers[0].request
    assert f"Authorization: Bearer {second}\r\n" in servers[1].request


async def test_closed_transport_closes_connections_of_streams(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PreparedServer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def dial(*_: object) -> Connection:
        return server.connection

    monkeypatch.setattr(pool, "dial", dial)
    path = write(tmp_path / "kubeconfig", token="own", server="http://api:8080")
    transport = HttpTransport(kubeconfig.load(path), clock)
    async with transport.stream(Request("GET", "/"), 10, 10):
        await transport.close()

        assert server.transport.aborted


async def test_failed_plugin_keeps_unexpired_credentials(tmp_path: Path, clock: FakeClock, plugin: Plugin) -> None:
    credentials = exec_credentials(tmp_path, clock, plugin)
    await credentials.refresh()
    plugin.fail()

    credentials.reject("Bearer token-1")
    await credentials.refresh()

    assert credentials.authorization == "Bearer token-1"
    assert plugin.runs == 2


async def test_request_without_credentials_of_the_plugin_fails(
    tmp_path: Path, clock: FakeClock, plugin: Plugin
) -> None:
    plugin.fail()
    credentials = exec_credentials(tmp_path, clock, plugin)

    with pytest.raises(ConnectionLost, match="exit code 1"):
        await credentials.refresh()


async def test_token_of_the_kubeconfig_precedes_that_of_the_plugin(
    tmp_path: Path, clock: FakeClock, plugin: Plugin
) -> None:
    credentials = exec_credentials(tmp_path, clock, plugin, token="own")

    await credentials.refresh()

    assert credentials.authorization == "Bearer own"


async def test_failed_connection_is_reported_with_address_and_reason(tmp_path: Path, clock: FakeClock) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    path = write(tmp_path / "kubeconfig")
    path.write_text(path.read_text().replace("api:6443", f"127.0.0.1:{port}"))
    transport = HttpTransport(kubeconfig.load(path), clock)

    with pytest.raises(ConnectionLost) as raised:
        await transport.request(Request("GET", "/"), 10)

    await transport.close()
    assert str(raised.value) == f"cannot connect to 127.0.0.1:{port}: Connection refused"


async def test_new_token_with_the_same_certificate_keeps_the_connections(
    tmp_path: Path, clock: FakeClock, plugin: Plugin
) -> None:
    credentials = exec_credentials(tmp_path, clock, plugin)
    contexts, pair = [], issue(CA, "node", client=True)
    for current in (pair, pair, issue(CA, "node", client=True)):
        plugin.respond(clientCertificateData=current.certificate.decode(), clientKeyData=current.key.decode())
        credentials.reject(credentials.authorization)
        await credentials.refresh()
        contexts.append(credentials.context)

    assert contexts[0] is contexts[1] is not contexts[2]
    assert plugin.runs == 3


@pytest.mark.parametrize(
    ("reason", "text"),
    [("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV13_ALERT_CERTIFICATE_REQUIRED"), (None, "unknown alert")],
)
async def test_tls_alert_instead_of_a_response_is_reported_with_its_reason(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, reason: str | None, text: str
) -> None:
    server, alert = PreparedServer(), ssl.SSLError(1, "unknown alert")
    alert.reason = reason  # type: ignore[assignment]
    server.reader.set_exception(alert)

    async def dial(*_: object) -> Connection:
        return server.connection

    monkeypatch.setattr(pool, "dial", dial)
    transport = HttpTransport(kubeconfig.load(write(tmp_path / "kubeconfig", token="own")), clock)

    with pytest.raises(ConnectionLost) as raised:
        await transport.request(Request("POST", "/"), 10)

    await transport.close()
    assert str(raised.value) == text
