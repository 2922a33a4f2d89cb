"""Tests for the client of admission webhooks: addresses of services, trust, credentials and errors."""

from __future__ import annotations

import ssl
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.webhooks import client as module
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.admission.webhooks.review import WebhookCallError
from apiserver_stub.admission.webhooks.users import WebhookUsers
from apiserver_stub.egress import connector
from apiserver_stub.webhook import WebhookError, WebhookResponse
from tests.unit.apiserver_stub.authz.conftest import Memory

CONTEXT = object()


class Pair:
    """Certificate and key of the server, which trusts every bundle but ``bad``."""

    async def context(self, bundle: str) -> Any:
        return self.new_context(bundle) and CONTEXT

    def new_context(self, bundle: str) -> Any:
        if bundle == "bad":
            raise ValueError("no certificates")
        return f"for {bundle}"


class Session:
    def __init__(self, dialer: Any) -> None:
        self.dialer, self.closed = dialer, False

    async def close(self) -> None:
        self.closed = True


class Network:
    """Network with one response to all requests."""

    def __init__(self) -> None:
        self.store: Any = Memory()
        self.sent: list[dict[str, Any]] = []
        self.sessions: list[Session] = []
        self.response: Any = WebhookResponse(200, b"{}", "")
        self.users = WebhookUsers({})

    def client(self) -> WebhookClient:
        egress: Any = SimpleNamespace(cluster="cluster", controlplane="controlplane")
        pair: Any = Pair()
        return WebhookClient(Lister(self.store), pair, self.users, egress)

    async def exchange(self, session: Session, url: str, data: bytes, **options: Any) -> Any:
        self.sent.append({"dialer": session.dialer, "url": url, "body": msgspec.json.decode(data), **options})
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    def session(self, dialer: Any) -> Session:
        self.sessions.append(Session(dialer))
        return self.sessions[-1]

    async def problem(self, config: Any) -> str:
        """Return the error of a call, empty if it succeeds."""
        try:
            await self.client().post(config, {}, 5)
        except WebhookCallError as error:
            return str(error)
        return ""


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    found = Network()
    monkeypatch.setattr(module, "exchange", found.exchange)
    monkeypatch.setattr(connector, "new_session", found.session)
    return found


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s", "namespace": "n"}, "spec": spec}


async def test_webhook_with_a_url_is_called_from_the_control_plane(network: Network) -> None:
    network.response = WebhookResponse(200, b'{"a": "b"}', "")

    response = await network.client().post({"url": "https://w.example/x", "caBundle": "ca"}, {"c": "d"}, 5)

    assert response == {"a": "b"}
    assert network.sent[0] == {
        "dialer": "controlplane",
        "url": "https://w.example/x",
        "body": {"c": "d"},
        "seconds": 5,
        "context": CONTEXT,
        "server_name": None,
        "authorization": "",
        "max_bytes": 8 << 20,
    }


@pytest.mark.parametrize(
    ("spec", "reference", "url"),
    [
        ({"clusterIP": "10.0.0.1"}, {}, "https://10.0.0.1:443/"),
        ({"clusterIP": "10.0.0.1"}, {"port": 8443, "path": "/x"}, "https://10.0.0.1:8443/x"),
        ({"clusterIP": "fd00::1"}, {}, "https://[fd00::1]:443/"),
        ({"clusterIP": "None"}, {}, "https://10.1.0.1:443/"),
        ({}, {}, "https://10.1.0.1:443/"),
        ({"type": "ExternalName", "externalName": "w.example", "clusterIP": "10.0.0.1"}, {}, "https://w.example:443/"),
    ],
)
async def test_service_is_called_at_its_address(network: Network, spec: Any, reference: Any, url: str) -> None:
    network.store.put("core/services", service(**spec))
    subsets = [{"notReadyAddresses": [{"ip": "x"}]}, {"addresses": [{"ip": "10.1.0.1"}, {"ip": "10.1.0.2"}]}]
    network.store.put("core/endpoints", {"metadata": {"name": "s", "namespace": "n"}, "subsets": subsets})

    assert not await network.problem({"service": {"name": "s", "namespace": "n", **reference}})

    (sent,) = network.sent
    assert (sent["url"], sent["server_name"], sent["dialer"]) == (url, "s.n.svc", "cluster")


async def test_missing_service_and_endpoints_are_errors(network: Network) -> None:
    config = {"service": {"name": "s", "namespace": "n"}}

    assert await network.problem(config) == 'service "s" not found'
    network.store.put("core/services", service(clusterIP="None"))
    assert await network.problem(config) == 'no endpoints available for service "s"'


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (WebhookResponse(201, b"{}", ""), "unexpected HTTP status 201"),
        (WebhookResponse(200, b"[]", ""), "the response is not a JSON object"),
        (WebhookResponse(200, b"{", ""), "invalid JSON response"),
        (TimeoutError(), "context deadline exceeded"),
        (ConnectionRefusedError("refused"), "refused"),
        (WebhookError("too large"), "too large"),
    ],
)
async def test_failed_call_is_reported_with_url_and_timeout(network: Network, response: Any, problem: str) -> None:
    network.response = response

    found = await network.problem({"url": "https://w.example"})

    assert found.startswith(f'Post "https://w.example?timeout=5s": {problem}')


async def test_invalid_trust_bundle_is_an_error(network: Network) -> None:
    found = await network.problem({"url": "https://w.example", "caBundle": "bad"})

    assert found == "unable to load root certificates: no certificates"


@pytest.mark.parametrize(
    ("config", "server"),
    [
        ({"url": "https://w.example"}, "w.example:443"),
        ({"url": "https://w.example:8443/x"}, "w.example:8443"),
        ({"service": {"name": "s", "namespace": "n"}}, "s.n.svc:443"),
    ],
)
async def test_credentials_are_those_of_the_server(network: Network, config: Any, server: str) -> None:
    class Users(WebhookUsers):
        def user_of(self, name: str) -> Any:
            return credentials if name == server else None

    def current() -> Any:
        if not token:
            raise ValueError("no token")
        return SimpleNamespace(client_certificate="", authorization=lambda: token)

    token, credentials = "Bearer t", SimpleNamespace(current=current)
    network.store.put("core/services", service(clusterIP="10.0.0.1"))
    network.users = Users({})

    assert not await network.problem({**config, "caBundle": "ca"})
    assert (network.sent[0]["authorization"], network.sent[0]["context"]) == ("Bearer t", "for ca")
    assert await network.problem({**config, "caBundle": "bad"}) == "unable to load root certificates: no certificates"
    token = ""
    assert await network.problem(config) == "unable to load credentials: no token"


async def test_connections_are_shared_and_closed(network: Network) -> None:
    client = network.client()
    derived = client.with_users(WebhookUsers({}))
    network.store.put("core/services", service(clusterIP="10.0.0.1"))
    for _ in range(2):
        await client.post({"url": "https://w.example"}, {}, 5)
        await client.post({"service": {"name": "s", "namespace": "n"}}, {}, 5)
        await derived.post({"url": "https://w.example"}, {}, 5)

    await client.close()

    assert [session.dialer for session in network.sessions] == ["controlplane", "cluster", "controlplane"]
    assert all(session.closed for session in network.sessions)
    assert isinstance(ssl.create_default_context(), ssl.SSLContext)
