"""Tests for the egress selector: konnectivity and HTTP CONNECT for nodes, webhooks and the store."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from apiserver_stub.egress.connector import new_session
from apiserver_stub.egress.dialing import HttpConnectDialer
from apiserver_stub.egress.konnectivity import KonnectivityDialer
from apiserver_stub.storage.etcd.client import TlsFiles
from apiserver_stub.webhook import Webhook
from nodeagent.base.kubeconfig import KubeconfigError
from nodeagent.base.tls import generate_ca, issue

from .agents import Pki, agent, proxy
from .etcd import running_etcd, serving
from .konnectivity import proxy_server
from .provider import Provider
from .test_etcd import ok
from .test_limits import Client

NODE_IP = "198.51.100.7"
SERVICE_IP = "10.0.0.77"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    found = Provider(tmp_path, "hooks.example", "reviews.example", "hook.default.svc")
    yield found
    found.close()


def selector(path: Path, **connections: Any) -> str:
    selections = [{"name": name, "connection": connection} for name, connection in connections.items()]
    kind = {"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration"}
    path.write_text(yaml.safe_dump({**kind, "egressSelections": selections}))
    return f"--egress-selector-config-file={path}"


def konnectivity(path: Path) -> dict[str, Any]:
    return {"proxyProtocol": "GRPC", "transport": {"uds": {"udsName": str(path)}}}


def connect_proxy(port: int) -> dict[str, Any]:
    return {"proxyProtocol": "HTTPConnect", "transport": {"tcp": {"url": f"http://127.0.0.1:{port}"}}}


@pytest.mark.row("opt.egress-selector-config-file")
async def test_konnectivity_stream_carries_a_tls_connection(tmp_path: Path, provider: Provider) -> None:
    port = port_of(provider)
    provider.paths["/echo"] = lambda body: (200, body)
    large = {"text": "z" * 900_000}
    context = ssl.create_default_context(cafile=provider.ca_file)
    with proxy_server(tmp_path / "s", lambda address: port if address.startswith("[2001:db8::1]") else 0) as service:
        dialer = KonnectivityDialer(str(tmp_path / "s"))
        try:
            async with new_session(dialer) as session:
                for _ in range(2):
                    url, name = "https://[2001:db8::1]:8443/echo", "127.0.0.1"
                    async with session.post(url, json=large, ssl=context, server_hostname=name) as response:
                        assert await response.json(content_type=None) == large
                with pytest.raises(aiohttp.ClientConnectionError, match=r"no route to far\.example:443"):
                    await session.get("https://far.example/")
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await session.get("https://[2001:db8::1]:8443/echo")
        finally:
            await dialer.close()
    assert set(service.addresses) == {"[2001:db8::1]:8443", "far.example:443"}


async def test_closed_connection_is_closed_by_the_konnectivity_server(tmp_path: Path, provider: Provider) -> None:
    with proxy_server(tmp_path / "s", lambda _: port_of(provider)) as service:
        dialer = KonnectivityDialer(str(tmp_path / "s"))
        try:
            protocol = await dialer.connect(Connection, "far.example", 1, None)
            protocol.transport.close()
            async with asyncio.timeout(20):
                while service.closed != [7]:
                    await asyncio.sleep(0.01)
        finally:
            await dialer.close()


class Connection(asyncio.Protocol):
    transport: asyncio.BaseTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport


async def test_missing_konnectivity_server_is_a_connection_error(tmp_path: Path) -> None:
    dialer = KonnectivityDialer(str(tmp_path / "nope"))
    try:
        with pytest.raises(ConnectionRefusedError, match="the proxy server failed"):
            await dialer.connect(asyncio.Protocol, "far.example", 1, None)
    finally:
        await dialer.close()


@pytest.mark.row("opt.egress-selector-config-file")
async def test_each_destination_has_its_own_egress(tmp_path: Path, provider: Provider) -> None:
    files = store_files(tmp_path)
    arguments = [f"--trusted-ca-file={files.ca}", f"--cert-file={files.certificate}", f"--key-file={files.key}"]
    hook_port, pki = port_of(provider), Pki(tmp_path, "nodes")
    async with running_etcd(tmp_path / "etcd0", "--client-cert-auth", *arguments, files=files) as etcd:
        with (
            agent(pki) as node_port,
            proxy(hook_port) as hooks,
            proxy_server(
                tmp_path / "c", {f"{NODE_IP}:10250": node_port, f"{SERVICE_IP}:443": hook_port}.__getitem__
            ) as cluster,
            proxy_server(tmp_path / "e", lambda _: etcd.port) as stored,
        ):
            egress = selector(
                tmp_path / "egress.yaml",
                cluster=konnectivity(tmp_path / "c"),
                controlplane=connect_proxy(hooks.server_address[1]),
                etcd=konnectivity(tmp_path / "e"),
            )
            certificate, key = pki.pair("behind-the-proxy")
            options = [
                "--store-servers=https://etcd.example:2379",
                f"--store-cafile={files.ca}",
                f"--store-certfile={files.certificate}",
                f"--store-keyfile={files.key}",
                f"--nodeagent-client-certificate={certificate}",
                f"--nodeagent-client-key={key}",
                "--authorization-mode=RBAC,Webhook",
                *review_options(tmp_path, provider),
                egress,
            ]
            async with serving(tmp_path / "data", *options) as client:
                await check_log(client)
                await check_webhooks(client, provider)
                await check_reviews(client, provider)
        assert any("/configmaps/" in name for name in await etcd.stored("/registry/"))
    assert set(stored.addresses) == {"etcd.example:2379"}
    assert set(cluster.addresses) == {f"{NODE_IP}:10250", f"{SERVICE_IP}:443"}
    assert set(hooks.requests) == {"hooks.example:443", "reviews.example:443"}


def store_files(directory: Path) -> TlsFiles:
    """Return the certificate files of a store with the name ``etcd.example``."""
    ca = generate_ca("etcd-ca")
    pair = issue(ca, "etcd", names=["etcd.example", "127.0.0.1"], server=True, client=True)
    for name, data in (("etcd-ca", ca.certificate), ("etcd-crt", pair.certificate), ("etcd-key", pair.key)):
        (directory / name).write_bytes(data)
    return TlsFiles(directory / "etcd-ca", directory / "etcd-crt", directory / "etcd-key")


def port_of(provider: Provider) -> int:
    return int(provider.url.rpartition(":")[2])


def review_options(directory: Path, provider: Provider) -> list[str]:
    """Return the options for webhooks of authentication, authorization and audit."""
    options = []
    for name in ("token", "access", "audit"):
        path = directory / f"{name}.kubeconfig"
        cluster = {"server": f"https://reviews.example/{name}", "certificate-authority": str(provider.ca_file)}
        contexts = [{"name": "a", "context": {"cluster": "a"}}]
        clusters = [{"name": "a", "cluster": cluster}]
        path.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts, "current-context": "a"}))
        options.append(str(path))
    policy = directory / "policy.yaml"
    rules = [{"level": "Metadata", "users": ["bob"]}]
    policy.write_text(yaml.safe_dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return [
        f"--authentication-token-webhook-config-file={options[0]}",
        f"--authorization-webhook-config-file={options[1]}",
        f"--audit-webhook-config-file={options[2]}",
        "--audit-webhook-mode=blocking",
        f"--audit-policy-file={policy}",
    ]


async def check_log(client: Client) -> None:
    """Read a log from a node."""
    status = {"addresses": [{"type": "InternalIP", "address": NODE_IP}]}
    await ok(client, "POST", "/api/v1/nodes", {"metadata": {"name": "far"}, "status": status})
    pods = "/api/v1/namespaces/default/pods"
    spec = {"nodeName": "far", "containers": [{"name": "c", "image": "i"}]}
    await ok(client, "POST", pods, {"metadata": {"name": "p"}, "spec": spec})
    assert (await ok(client, "GET", f"{pods}/p/log"))["path"] == "/containerLogs/default/p/c"


async def check_webhooks(client: Client, provider: Provider) -> None:
    """Create an object that a webhook with a URL and one in a service review."""
    provider.paths["/url"] = provider.paths["/service"] = allow
    service = {"clusterIP": SERVICE_IP, "ports": [{"port": 443}]}
    await ok(client, "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": service})
    bundle = base64.b64encode(provider.ca_file.read_bytes()).decode()
    targets = [
        {"url": "https://hooks.example/url"},
        {"service": {"name": "hook", "namespace": "default", "path": "/service"}},
    ]
    webhooks = [
        {
            "name": f"w{number}.example.com",
            "clientConfig": {**target, "caBundle": bundle},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for number, target in enumerate(targets)
    ]
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    await ok(client, "POST", path, {"metadata": {"name": "w"}, "webhooks": webhooks})
    await ok(client, "POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
    called = {path.partition("?")[0] for path, _ in provider.requests}
    assert {"/url", "/service"} <= called


def allow(review: Any) -> tuple[int, Any]:
    response = {"uid": review["request"]["uid"], "allowed": True}
    return 200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


async def check_reviews(client: Client, provider: Provider) -> None:
    """Send a request of a user that the webhooks authenticate, authorize and record."""
    bob = {"authenticated": True, "user": {"username": "bob"}}
    provider.paths["/token"] = lambda review: (200, {**review, "status": bob})
    provider.paths["/access"] = lambda review: (200, {**review, "status": {"allowed": True}})
    provider.paths["/audit"] = lambda _: (200, {})
    tls = ssl.create_default_context(cafile=str(client.running.ca_file))
    headers = {"Authorization": "Bearer of-bob"}
    url = f"{client.running.url}/api/v1/namespaces/default/configmaps/m"
    async with aiohttp.ClientSession() as session, session.get(url, ssl=tls, headers=headers) as response:
        assert response.status == 200
    called = {path.partition("?")[0] for path, _ in provider.requests}
    assert {"/token", "/access", "/audit"} <= called


def test_webhook_with_a_proxy_besides_the_egress_is_rejected(tmp_path: Path) -> None:
    cluster = {"server": "https://reviews.example", "proxy-url": "http://127.0.0.1:1"}
    contexts = [{"name": "a", "context": {"cluster": "a"}}]
    path = tmp_path / "kubeconfig"
    clusters = [{"name": "a", "cluster": cluster}]
    path.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts, "current-context": "a"}))
    with pytest.raises(KubeconfigError, match="proxy-url: cannot be used with an egress selection for controlplane"):
        Webhook(path, dialer=HttpConnectDialer("127.0.0.1", 1))
