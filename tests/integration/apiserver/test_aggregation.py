"""Tests for API aggregation: availability, proxying and discovery of extension API servers."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from nodeagent.base.tls import issue

from .agents import Pki, ProxyServer, proxy
from .conftest import Api, Server
from .extension import GROUP, METRICS, ROOT, Extension, extension

API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
NAMED = f"v1.{GROUP}"
CLUSTER_IP, POD_IP, POD_PORT = "10.0.0.77", "10.9.8.7", 8443
THINGS = f"{ROOT}/namespaces/default/things"
SECONDS = 30.0
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"), "front-proxy-ca")


@pytest.fixture(scope="module")
def beyond(pki: Pki) -> Iterator[Extension]:
    with extension(pki) as found:
        yield found


@pytest.fixture(scope="module")
def way(beyond: Extension) -> Iterator[ProxyServer]:
    """Replacement of the cluster network: all addresses resolve to the extension and are recorded."""
    with proxy(beyond.server_address[1]) as found:
        yield found


@contextmanager
def serving(directory: Path, pki: Pki, way: ProxyServer, *options: str) -> Iterator[Server]:
    connection = {
        "proxyProtocol": "HTTPConnect",
        "transport": {"tcp": {"url": f"http://127.0.0.1:{way.server_address[1]}"}},
    }
    selections = [{"name": "cluster", "connection": connection}]
    kind = {"kind": "EgressSelectorConfiguration", "apiVersion": "apiserver.k8s.io/v1beta1"}
    (directory / "egress.yaml").write_text(yaml.safe_dump({**kind, "egressSelections": selections}))
    server = Server(directory, f"--egress-selector-config-file={directory / 'egress.yaml'}", *options)
    try:
        register(server.api(), pki)
        server.kubectl("wait", "--for=condition=Available", f"apiservice/{NAMED}", f"--timeout={SECONDS:g}s")
        yield server
    finally:
        code = server.stop()
    assert code == 0


@pytest.fixture(scope="module")
def pair(pki: Pki) -> tuple[Path, Path]:
    return pki.pair("front-proxy-client")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, pki: Pki, pair: tuple[Path, Path], way: ProxyServer
) -> Iterator[Server]:
    shown = [f"--proxy-client-cert-file={pair[0]}", f"--proxy-client-key-file={pair[1]}"]
    known = [f"--requestheader-client-ca-file={pki.ca_file}", "--requestheader-allowed-names=front-proxy-client"]
    with serving(tmp_path_factory.mktemp("aggregation"), pki, way, *shown, *known) as found:
        yield found


def service(name: str = NAMED, **spec: Any) -> dict[str, Any]:
    version, _, group = name.partition(".")
    given = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 10}
    reference = {"name": "extension", "namespace": "default", "port": 443}
    return {"metadata": {"name": name}, "spec": {**given, "service": reference, **spec}}


def register(api: Api, pki: Pki) -> None:
    ports = [{"name": "api", "port": 443, "targetPort": POD_PORT}]
    api.ok(
        "POST",
        "/api/v1/namespaces/default/services",
        {"metadata": {"name": "extension"}, "spec": {"clusterIP": CLUSTER_IP, "ports": ports}},
    )
    subset = {"addresses": [{"ip": POD_IP}], "ports": [{"name": "api", "port": POD_PORT}]}
    api.ok(
        "POST",
        "/api/v1/namespaces/default/endpoints",
        {"metadata": {"name": "extension"}, "subsets": [subset]},
    )
    bundle = base64.b64encode(pki.ca_file.read_bytes()).decode()
    api.ok("POST", API_SERVICES, service(caBundle=bundle))


def available(api: Api, name: str = NAMED) -> tuple[str, str, str]:
    conditions = api.ok("GET", f"{API_SERVICES}/{name}").get("status", {}).get("conditions", [{}])
    return tuple(conditions[0].get(key, "") for key in ("status", "reason", "message"))  # type: ignore[return-value]


def until(found: Callable[[], Any], expected: Callable[[Any], bool]) -> Any:
    """Return the result of *found* once it equals the expected one."""
    end = time.monotonic() + SECONDS
    while not expected(value := found()):
        assert time.monotonic() < end, value
        time.sleep(0.05)
    return value


def reason_becomes(api: Api, reason: str, name: str = NAMED) -> tuple[str, str, str]:
    found: tuple[str, str, str] = until(lambda: available(api, name), lambda value: value[1] == reason)
    return found


def freshness(api: Api) -> str:

    groups = api.ok("GET", "/apis", headers={"Accept": AGGREGATED})["items"]
    (versions,) = [item["versions"] for item in groups if item["metadata"]["name"] == GROUP]
    return str(versions[0]["freshness"])


@pytest.mark.row("opt.proxy-client-cert-file", "opt.proxy-client-key-file")
def test_proxied_request_has_identity_headers_and_a_certificate(server: Server, api: Api) -> None:
    forged = {
        "X-Remote-User": "root",
        "x-remote-group": "system:masters",
        "X-Remote-Extra-Scopes": "all",
        "Cookie": "a=b",
        "X-Kept": "yes",
    }
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        body = {"a": method} if method != "GET" else None
        seen = api.ok(method, f"{THINGS}/echo?x=%2F1", body, headers=forged)
        assert (seen["method"], seen["path"], seen["who"]) == (method, f"{THINGS}/echo?x=%2F1", "front-proxy-client")
        assert json.loads(seen["body"] or "null") == body
    headers = seen["headers"]
    assert headers["x-remote-user"] == ["admin"]
    assert headers["x-remote-group"] == ["system:masters", "system:authenticated"]
    assert headers["x-kept"] == ["yes"]
    assert not headers.keys() & {"authorization", "cookie", "x-remote-extra-scopes"}

    as_other = {"Impersonate-User": "jane", "Impersonate-Group": "devs", "Impersonate-Extra-a%2fb": "c"}
    code, rejection = api.call("GET", f"{THINGS}/echo", headers=as_other)
    assert (code, rejection["reason"]) == (403, "Forbidden")
    assert f'User "jane" cannot get resource "things" in API group "{GROUP}"' in rejection["message"]
    as_other["Impersonate-Group"] = "system:masters"
    headers = api.ok("GET", f"{THINGS}/echo", headers=as_other)["headers"]
    assert headers["x-remote-user"] == ["jane"]
    assert headers["x-remote-extra-a%2fb"] == ["c"]
    assert "impersonate-user" not in headers

    config = api.ok("GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")["data"]
    assert "BEGIN CERTIFICATE" in config["requestheader-client-ca-file"]
    assert json.loads(config["requestheader-allowed-names"]) == ["front-proxy-client"]


def test_anonymous_requests_are_not_proxied(server: Server) -> None:
    anonymous = server.api(None)
    assert anonymous.call("GET", f"{THINGS}/echo")[0] in (401, 403)


def test_watch_events_are_proxied_individually(server: Server, api: Api, beyond: Extension) -> None:
    beyond.go_on.clear()
    with api.watch(f"{THINGS}?watch=true", seconds=SECONDS) as events:
        assert next(events)["object"]["metadata"]["name"] == "first"
        beyond.go_on.set()
        assert next(events)["object"]["metadata"]["name"] == "second"
        assert next(events, None) is None


def test_upgraded_connection_is_tunneled(server: Server) -> None:
    url = urlsplit(server.ready["url"])
    context = ssl.create_default_context(cafile=server.ready["caFile"])
    with (
        socket.create_connection((url.hostname or "", url.port or 0), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=url.hostname) as connection,
    ):
        lines = [
            f"GET {THINGS}/one/exec HTTP/1.1",
            "Host: me",
            f"Authorization: Bearer {server.ready['token']}",
            "Connection: Upgrade",
            "Upgrade: SPDY/3.1",
            "X-Remote-User: root",
        ]
        connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        reader = connection.makefile("rb")
        assert b" 101 " in reader.readline()
        while reader.readline().strip():
            pass
        seen = json.loads(reader.readline())
        assert (seen["who"], seen["headers"]["x-remote-user"]) == ("front-proxy-client", ["admin"])
        connection.sendall(b"z" * 200_000)
        assert reader.read(200_000) == b"z" * 200_000


@pytest.mark.row("opt.aggregator-reject-forwarding-redirect", "opt.enable-aggregator-routing")
def test_redirects_are_rejected_and_the_cluster_ip_is_used(server: Server, api: Api, way: ProxyServer) -> None:
    way.requests.clear()
    code, headers, text = api.raw("GET", f"{THINGS}/moved")

    assert (code, "location" in headers) == (502, False)
    assert text == b"the backend attempted to redirect this request, which is not permitted"
    assert f"{CLUSTER_IP}:443" in way.requests
    assert f"{POD_IP}:{POD_PORT}" not in way.requests
    upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    assert api.raw("GET", f"{THINGS}/moved", headers=upgrade)[0] == 503
    api.close()


@pytest.mark.row("opt.aggregator-reject-forwarding-redirect", "opt.enable-aggregator-routing")
def test_redirects_may_be_forwarded_and_endpoints_used(
    tmp_path: Path, pki: Pki, pair: tuple[Path, Path], way: ProxyServer
) -> None:
    shown = [f"--proxy-client-cert-file={pair[0]}", f"--proxy-client-key-file={pair[1]}"]
    chosen = ["--enable-aggregator-routing", "--aggregator-reject-forwarding-redirect=false"]
    with serving(tmp_path, pki, way, *shown, *chosen) as server:
        way.requests.clear()
        code, headers, _ = server.api().raw("GET", f"{THINGS}/moved")

        assert (code, headers["location"]) == (302, f"{ROOT}/elsewhere")
        assert f"{POD_IP}:{POD_PORT}" in way.requests  # excludes the periodic requests of the other server


def test_kubectl_discovers_aggregated_resources(server: Server, api: Api, pki: Pki) -> None:
    until(lambda: freshness(api), lambda value: value == "Current")
    assert server.kubectl("get", "things", "-o", "name").split() == [f"thing.{GROUP}/one", f"thing.{GROUP}/two"]
    assert "one" in server.kubectl("get", "tg")
    row = server.kubectl("get", "apiservice", NAMED, "--no-headers").split()
    assert row[:3] == [NAMED, "default/extension", "True"]
    assert f"tg {GROUP}/v1 true Thing".split() == [
        part
        for line in server.kubectl("api-resources").splitlines()
        if line.startswith("things ")
        for part in line.split()[1:]
    ]
    assert f"{GROUP}/v1" in server.kubectl("api-versions").split()
    group = api.ok("GET", f"/apis/{GROUP}")
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
    assert [item["name"] for item in api.ok("GET", "/apis")["groups"]][-1] == GROUP
    assert f"/apis/{GROUP}/v1" in api.ok("GET", "/")["paths"]
    assert [item["name"] for item in api.ok("GET", ROOT)["resources"]] == ["things", "things/scale"]
    url = api.ok("GET", "/openapi/v3")["paths"][ROOT[1:]]["serverRelativeURL"]
    assert api.ok("GET", url)["path"] == f"/openapi/v3{ROOT}?hash=H"

    api.ok("POST", API_SERVICES, service("v1beta1.metrics.k8s.io", insecureSkipTLSVerify=True))
    reason_becomes(api, "Passed", "v1beta1.metrics.k8s.io")
    api.ok(
        "POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    )
    assert "250m" in server.kubectl("top", "nodes")
    api.ok("DELETE", f"{API_SERVICES}/v1beta1.metrics.k8s.io")
    until(lambda: api.call("GET", METRICS)[0], lambda code: code == 404)


def test_condition_follows_service_endpoints_and_responses(server: Server, api: Api, beyond: Extension) -> None:
    endpoints = "/api/v1/namespaces/default/endpoints/extension"
    assert available(api) == ("True", "Passed", "all checks passed")
    was = api.ok("GET", endpoints)
    merge = "application/merge-patch+json"

    api.ok("PATCH", endpoints, {"subsets": None}, content_type=merge)
    assert 'no addresses with port name "api"' in reason_becomes(api, "MissingEndpoints")[2]
    code, headers, text = api.raw("GET", f"{THINGS}/echo")
    assert (code, text, headers["content-type"]) == (503, b"service unavailable\n", "text/plain; charset=utf-8")
    until(lambda: freshness(api), lambda value: value == "Stale")
    assert "things" in json.dumps(api.ok("GET", "/apis", headers={"Accept": AGGREGATED}))
    api.ok("DELETE", endpoints)
    assert reason_becomes(api, "EndpointsNotFound")[2] == 'cannot find endpoints for service/extension in "default"'
    api.ok(
        "POST", "/api/v1/namespaces/default/endpoints", {"metadata": {"name": "extension"}, "subsets": was["subsets"]}
    )
    reason_becomes(api, "Passed")

    other = {"spec": {"service": {"port": 444}}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", other, content_type=merge)
    assert reason_becomes(api, "ServicePortError")[2] == 'service/extension in "default" is not listening on port 444'
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", {"spec": {"service": {"name": "nope"}}}, content_type=merge)
    assert reason_becomes(api, "ServiceNotFound")[2] == 'service/nope in "default" is not present'
    beyond.healthy = False
    back = {"spec": {"service": {"name": "extension", "port": 443}}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", back, content_type=merge)
    reported = reason_becomes(api, "FailedDiscoveryCheck")
    assert (reported[0], f"bad status from https://{CLUSTER_IP}:443{ROOT}: 500" in reported[2]) == ("False", True)
    shown = server.kubectl("get", "apiservice", NAMED, "--no-headers").split(maxsplit=2)[2]
    assert shown.startswith("False (FailedDiscoveryCheck)")
    beyond.healthy = True
    reason_becomes(api, "Passed")


def test_certificate_of_another_service_is_rejected(server: Server, api: Api, pki: Pki) -> None:
    merge = "application/merge-patch+json"
    anonymous = Pki(pki.directory, "stranger-ca")
    right = base64.b64encode(pki.ca_file.read_bytes()).decode()
    wrong = base64.b64encode(anonymous.ca_file.read_bytes()).decode()
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", {"spec": {"caBundle": wrong}}, content_type=merge)
    _, text = until(lambda: api.call("GET", f"{THINGS}/echo"), lambda found: found[0] == 503)
    assert text.startswith(b"error trying to reach service: tls: ")
    elsewhere = {"type": "ExternalName", "externalName": "extension.example.com"}
    api.ok("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "other"}, "spec": elsewhere})
    misnamed = {"spec": {"caBundle": right, "service": {"name": "other"}}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", misnamed, content_type=merge)
    until(lambda: api.call("GET", f"{THINGS}/echo")[1], lambda found: b"'other.default.svc'" in found)
    back = {"spec": {"caBundle": wrong, "service": {"name": "extension"}}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", back, content_type=merge)

    insecure = {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", insecure, content_type=merge)
    until(lambda: api.call("GET", f"{THINGS}/echo"), lambda found: found[0] == 200)
    trusting = {"spec": {"caBundle": right, "insecureSkipTLSVerify": None}}
    api.ok("PATCH", f"{API_SERVICES}/{NAMED}", trusting, content_type=merge)
    until(lambda: freshness(api), lambda value: value == "Current")
    assert api.call("GET", f"{THINGS}/echo")[0] == 200


@pytest.mark.row("opt.proxy-client-cert-file", "opt.proxy-client-key-file")
def test_client_certificate_is_reloaded_and_sent_to_webhooks(
    server: Server, api: Api, pki: Pki, pair: tuple[Path, Path], beyond: Extension, namespace: str
) -> None:
    other = issue(pki.ca, "front-proxy-next", client=True)
    pair[1].write_bytes(other.key)
    pair[0].write_bytes(other.certificate)
    until(lambda: api.ok("GET", f"{THINGS}/echo")["who"], lambda who: who == "front-proxy-next")

    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "judge.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{beyond.server_address[1]}/judge",
            "caBundle": base64.b64encode(pki.ca_file.read_bytes()).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    api.ok("POST", hooks, {"metadata": {"name": "judge"}, "webhooks": [hook]})
    _, denied = api.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "a"}})
    api.ok("DELETE", f"{hooks}/judge")
    assert denied["message"] == 'admission webhook "judge.example.com" denied the request: says front-proxy-next'
