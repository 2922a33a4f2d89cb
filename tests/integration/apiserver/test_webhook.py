"""Tests for the webhook client: retries, limits and TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver_stub.webhook import ATTEMPTS, Webhook, WebhookError
from nodeagent.base.aio import SystemClock
from nodeagent.base.tls import issue
from tests.integration.apiserver.provider import Provider


class Pauses(SystemClock):
    """Clock that records pauses without waiting."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    found = Provider(tmp_path)
    yield found
    found.close()


def connection(
    provider: Provider, directory: Path, *, trusted: bool = True, proxy_url: str = "", **user: object
) -> Path:
    cluster = {"server": f"{provider.url}/hook"} | ({"certificate-authority": provider.ca_file.name} if trusted else {})
    if proxy_url:
        cluster["proxy-url"] = proxy_url
    config = {
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u"}}],
        "current-context": "a",
    }
    path = directory / "webhook.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


async def test_transient_failures_are_retried_with_back_off(provider: Provider, tmp_path: Path) -> None:
    responses = [(500, {}), (429, {}), (503, {}), (200, {"fine": True})]
    provider.paths["/hook"] = lambda _: responses.pop(0)
    clock = Pauses()

    async with Webhook(connection(provider, tmp_path), clock=clock) as service:
        assert await service.post({"a": 1}) == {"fine": True}

    assert provider.requests == [("/hook?timeout=30s", {"a": 1})] * 4
    least = (0.5, 0.75, 1.125)
    assert all(low <= pause <= low * 1.2 for low, pause in zip(least, clock.seconds, strict=True))


@pytest.mark.parametrize(
    ("code", "response", "attempts"),
    [
        (500, {}, ATTEMPTS),
        (400, {}, 1),
        (302, "/other", 1),
        (200, "x" * (4 << 20), 1),
    ],
    ids=["server error", "client error", "redirect", "oversized"],
)
async def test_permanent_failures_are_not_retried(
    provider: Provider, tmp_path: Path, code: int, response: Any, attempts: int
) -> None:
    provider.paths["/hook"] = lambda _: (code, response)
    provider.paths["/other"] = lambda _: (200, {})

    async with Webhook(connection(provider, tmp_path), clock=Pauses()) as service:
        with pytest.raises(WebhookError, match=r"unexpected HTTP status|response exceeds"):
            await service.post({})

    assert provider.requests == [("/hook?timeout=30s", {})] * attempts


async def test_retry_any_failure_option_retries_permanent_failures(provider: Provider, tmp_path: Path) -> None:
    responses: list[tuple[int, Any]] = [(400, {}), (302, "/other"), (200, "x" * (4 << 20)), (200, {"fine": True})]
    provider.paths["/hook"] = lambda _: responses.pop(0)

    async with Webhook(connection(provider, tmp_path), clock=Pauses(), retry_all=True) as service:
        assert (await service.send(b"{}")).document() == {"fine": True}

    assert provider.requests == [("/hook?timeout=30s", {})] * 4


async def test_untrusted_server_receives_no_request(provider: Provider, tmp_path: Path) -> None:
    async with Webhook(connection(provider, tmp_path, trusted=False), clock=Pauses()) as service:
        with pytest.raises(WebhookError, match=r"(?i)certificate"):
            await service.post({})

    assert provider.requests == []


async def test_changed_certificate_files_apply_to_the_next_call(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def renew(name: str) -> None:
        pair = issue(provider.authority, name, client=True)
        (tmp_path / "client.key").write_bytes(pair.key)
        (tmp_path / "client.crt").write_bytes(pair.certificate)

    provider.paths["/hook"] = lambda _: (200, {})
    renew("first")
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    async with Webhook(connection(provider, tmp_path, **user), clock=Pauses()) as service:
        await service.post({})
        renew("the-second")
        await service.post({})
        (tmp_path / "client.crt").write_bytes(b"half a file")
        await service.post({})
        await service.post({})

    assert provider.callers == ["first", *["the-second"] * 3]
    assert [record.message for record in caplog.records] == [
        "Failed to reload certificate files, keeping the previous ones"
    ]


@asynccontextmanager
async def connect_proxy(targets: list[str]) -> AsyncIterator[str]:
    """Run an HTTP proxy that records the targets of CONNECT requests."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        targets.append(target)
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_requests_pass_the_proxy_of_the_kubeconfig(provider: Provider, tmp_path: Path) -> None:
    provider.paths["/hook"] = lambda _: (200, {"fine": True})
    targets: list[str] = []

    async with (
        connect_proxy(targets) as proxy,
        Webhook(connection(provider, tmp_path, proxy_url=proxy), clock=Pauses()) as service,
    ):
        assert await service.post({}) == {"fine": True}

    assert targets == [provider.url.removeprefix("https://")]


async def test_exec_plugin_provides_credentials_and_renews_rejected_ones(provider: Provider, tmp_path: Path) -> None:
    responses: list[tuple[int, Any]] = [(200, {}), (200, {}), (401, {}), (200, {})]
    provider.paths["/hook"] = lambda _: responses.pop(0)
    version = "client.authentication.k8s.io/v1"
    credential = json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": {"token": "RUN"}})
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/runs\necho '{credential}' | sed s/RUN/t$(wc -l < {tmp_path}/runs)/\n"
    )
    plugin.chmod(0o700)
    entry = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}

    async with Webhook(connection(provider, tmp_path, exec=entry), clock=Pauses()) as service:
        for _ in range(3):
            await service.post({})

    assert provider.authorizations == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]
