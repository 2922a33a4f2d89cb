"""Fixtures: the agent's server on loopback, with real TLS and fake components."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from nodeagent.base.tls import KeyPair, generate_ca, issue
from nodeagent.components import provide_access, provide_routes
from nodeagent.contracts.configuration import (
    AnonymousAuthentication,
    Authentication,
    Authorization,
    WebhookAuthentication,
    X509Authentication,
)
from nodeagent.contracts.context import AgentContext
from nodeagent.notification_queue import NotificationQueue
from nodeagent.pluginmanager import PluginManager
from nodeagent.server.server import AgentServer
from nodeagent.testing import FakeApi, FakeClock, make_config, make_context

TOKENS: dict[str, dict[str, Any]] = {
    "admin-token": {"username": "admin", "uid": "1", "groups": ["ops"]},
    "viewer-token": {"username": "viewer", "extra": {"scopes": ["read"]}},
    "scraper-token": {"username": "scraper"},
}
RIGHTS: dict[str, set[tuple[str, str]]] = {
    "admin": {
        *((verb, part) for verb in ("get", "create", "update") for part in ("proxy", "log", "metrics", "stats")),
        ("get", "configz"),
        ("get", "statusz"),
    },
    "viewer": {("get", "proxy"), ("get", "log")},
    "scraper": {("get", "metrics"), ("get", "stats")},
}


class ReviewingApi(FakeApi):
    """API server with the tokens and permissions above."""

    async def create(self, resource: Any, obj: Mapping[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        if resource.plural == "tokenreviews":
            self.requests.append(msgspec.json.encode(obj))  # type: ignore[arg-type]
            await self._pass("tokenreviews")
            user = TOKENS.get(obj["spec"]["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"authenticated": False}}
        if resource.plural == "subjectaccessreviews":
            self.requests.append(msgspec.json.encode(obj))  # type: ignore[arg-type]
            await self._pass("subjectaccessreviews")
            spec = obj["spec"]
            attributes = spec["resourceAttributes"]
            allowed = (attributes["verb"], attributes["subresource"]) in RIGHTS.get(spec["user"], set())
            return {"status": {"allowed": allowed}}
        return await super().create(resource, obj, *args, **kwargs)

    def reviews(self) -> list[Any]:
        return [msgspec.json.decode(body)["spec"] for body in self.requests if isinstance(body, bytes)]


@dataclass
class Pki:
    """A CA with certificates of both sides, in files."""

    directory: Path
    ca: KeyPair = field(default_factory=lambda: generate_ca("test-ca"))

    def __post_init__(self) -> None:
        self.put("ca.crt", self.ca.certificate)
        self.serve("node-1")

    def put(self, name: str, data: bytes) -> Path:
        path = self.directory / name
        path.write_bytes(data)
        return path

    def serve(self, name: str) -> None:
        """Issue a new serving certificate."""
        pair = issue(self.ca, name, names=[name, "127.0.0.1"], server=True)
        self.put("server.crt", pair.certificate)
        self.put("server.key", pair.key)

    def client(self, name: str = "", organizations: Sequence[str] = (), ca: KeyPair | None = None) -> ssl.SSLContext:
        """Return a client's context, with a certificate for *name* if set."""
        context = ssl.create_default_context(cadata=self.ca.certificate.decode())
        if name:
            pair = issue(ca or self.ca, name, organizations=organizations, client=True)
            files = self.put(f"{name}.crt", pair.certificate), self.put(f"{name}.key", pair.key)
            context.load_cert_chain(*files)
        return context


@dataclass
class Serving:
    """Running server and its dependencies."""

    server: AgentServer
    context: AgentContext
    pki: Pki
    api: ReviewingApi | None

    @property
    def clock(self) -> FakeClock:
        assert isinstance(self.context.clock, FakeClock)
        return self.context.clock

    async def fetch(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str = "",
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        read_only: bool = False,
    ) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and headers of the response."""
        scheme, port = ("http", self.server.read_only_port) if read_only else ("https", self.server.port)
        sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls or self.pki.client())) as session:
            from yarl import URL

            url = URL(f"{scheme}://127.0.0.1:{port}{path}", encoded=True)
            async with session.request(method, url, headers=sent, data=body, allow_redirects=False) as response:
                return response.status, await response.text(errors="replace"), response.headers

    async def connect(self, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.server.port, ssl=tls or self.pki.client())


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    directory = tmp_path / "files"
    directory.mkdir()
    return Pki(directory)


@asynccontextmanager
async def serving(
    pki: Pki, tmp_path: Path, *, standalone: bool = False, plugins: Sequence[object] = (), **fields: Any
) -> AsyncIterator[Serving]:
    """Run a server with configuration *fields*; *parts* are the components of its context by name."""
    parts = fields.pop("parts", {})
    wait = fields.pop("wait", True)
    files = {
        "tls_cert_file": str(pki.directory / "server.crt"),
        "tls_private_key_file": str(pki.directory / "server.key"),
    }
    if not fields.pop("tls_files", True):
        files = {}
    api = None if standalone else ReviewingApi()
    fields.setdefault("authentication", authentication(client_ca=str(pki.directory / "ca.crt")))
    config = make_config(
        address="127.0.0.1",
        port=fields.pop("port", 0),
        **files,
        **fields,
    )
    context = make_context(tmp_path, config=config, api=api, **parts)
    manager = PluginManager()
    manager.load_entry_points()
    for index, plugin in enumerate(plugins):
        manager.register(plugin, name=f"extra{index}")
    manager.provide_all("nodeagent_configure", config=config, context=context, plugins=manager)
    manager.provide_all("nodeagent_components_created", context=context, plugins=manager)
    server = AgentServer(
        context,
        {"syncloop": lambda: problems.get("syncloop", "")},
        lambda: provide_access(context, manager),
        lambda: provide_routes(context, manager),
        lambda: manager.is_implemented("nodeagent_provide_routes", third_party=True),
        NotificationQueue(manager, context.tasks, "nodeagent_access_recorded", "access"),
    )
    problems.clear()
    task = asyncio.create_task(server.run())
    try:
        async with asyncio.timeout(10):
            while not task.done() and (
                (config.enable_server and not server.port) or (config.read_only_port and not server.read_only_port)
            ):
                await asyncio.sleep(0.01)
                if standalone or not wait:
                    break
        yield Serving(server, context, pki, api)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await context.tasks.close()
        await context.cleanup.aclose()


problems: dict[str, str] = {}
"""Result of the fake health checks."""


def authentication(*, client_ca: str = "", webhook: bool = True, anonymous: bool = False) -> Authentication:
    return Authentication(
        x509=X509Authentication(client_ca_file=client_ca),
        webhook=WebhookAuthentication(enabled=webhook),
        anonymous=AnonymousAuthentication(enabled=anonymous),
    )


ALWAYS_ALLOW = Authorization(mode="AlwaysAllow")


def protocol_token(token: str) -> str:
    """Return *token* as a WebSocket subprotocol."""
    return "base64url.bearer.authorization.k8s.io." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")
